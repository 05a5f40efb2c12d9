// Package exported checks the module's public Go interface. It has a text file for each version, with one line for each
// thing that a program can name. If the source lacks or changes a line of an earlier version, the change is
// incompatible, and CHANGELOG.md must name it.
package exported
