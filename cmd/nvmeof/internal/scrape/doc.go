// Package scrape is --metrics of the commands that hold controllers: where Prometheus reads what
// they have counted, and what it finds there.
package scrape
