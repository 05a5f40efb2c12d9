// Package benchreport makes an HTML page of the results of loads: figures, plots and the setting. The page is
// self-contained: it uses neither the network nor scripts.
package benchreport
