// Package fio prints what loads measured as fio 3.33 does, so that people and
// scripts need not learn another format: JSON, JSON with the counters of latencies
// (json+), text, and logs; and percentiles as HdrHistogram does.
package fio
