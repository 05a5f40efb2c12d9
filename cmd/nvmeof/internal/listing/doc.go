// Package listing implements the commands nvmeof list and nvmeof list-subsys. They list the namespaces and subsystems
// that processes of this user hold, or that a target exports.
package listing
