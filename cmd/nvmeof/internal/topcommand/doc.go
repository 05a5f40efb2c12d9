// Package topcommand shows what a running target does: top.
package topcommand
