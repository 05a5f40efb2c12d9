// Package fio prints the results of loads as fio 3.33 does, so that people and scripts need not learn another format:
// JSON, JSON with latency bins (json+), text, and logs; and percentiles in the format of HdrHistogram.
package fio
