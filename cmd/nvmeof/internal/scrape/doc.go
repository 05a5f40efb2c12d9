// Package scrape implements the flag --metrics of the commands that hold controllers: the address from which
// Prometheus reads their counters, and the metrics served there.
package scrape
