// Package listing has the commands that list namespaces and subsystems: nvmeof list and
// nvmeof list-subsys, of what processes of this user hold and of what a target exports.
package listing
