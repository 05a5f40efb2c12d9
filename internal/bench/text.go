package bench

import (
	"fmt"
	"time"
)

// Bytes formats a size in the largest binary unit that divides it, such as 4 KiB.
func Bytes(n int) string {
	switch {
	case n >= 1<<20 && n%(1<<20) == 0:
		return fmt.Sprintf("%d MiB", n>>20)
	case n >= 1<<10 && n%(1<<10) == 0:
		return fmt.Sprintf("%d KiB", n>>10)
	}
	return fmt.Sprintf("%d B", n)
}

// Latency formats a duration in a unit that suits its size.
func Latency(d time.Duration) string {
	switch {
	case d < 100*time.Microsecond:
		return fmt.Sprintf("%.1f us", float64(d)/1e3)
	case d < 10*time.Millisecond:
		return fmt.Sprintf("%.0f us", float64(d)/1e3)
	case d < 10*time.Second:
		return fmt.Sprintf("%.1f ms", float64(d)/1e6)
	}
	return fmt.Sprintf("%.1f s", d.Seconds())
}
