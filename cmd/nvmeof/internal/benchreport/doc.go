// Package benchreport makes one HTML page of what loads measured: figures, plots and
// the setting. The page needs nothing but itself: no network, no script.
package benchreport
