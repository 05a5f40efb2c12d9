// Package failure defines the errors of commands with exit codes of their own, and suggestions for mistyped names.
package failure
