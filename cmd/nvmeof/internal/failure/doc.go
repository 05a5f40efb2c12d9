// Package failure has the errors that a command ends with where the process's exit code
// says more than that it failed, and the words that help with a mistyped name.
package failure
