// Package topcommand implements top, which shows the activity of a running target.
package topcommand
