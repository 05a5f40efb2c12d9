package backend

import "testing"

func TestOrder(t *testing.T) {
	const b = granule
	o := NewOrder(2)
	o.Add(0, 2*b, false)
	o.Add(10*b, b, true)
	tests := []struct {
		offset, length int64
		exclusive      bool
		want           bool
	}{
		{0, b, false, false},
		{0, b, true, true},
		{b, 512, true, true},
		{2 * b, b, true, false},
		{10 * b, b, false, true},
		{10*b + 512, 512, true, true},
		{9 * b, b, true, false},
		{9 * b, 2 * b, false, true},
		{20 * b, 100 * b, true, false},
		{74 * b, b, false, false}, // equal to 10 modulo 64
		{0, 1000 * b, false, true},
		{20 * b, 0, true, false},
		{63 * b, 2 * b, true, false},
	}
	for _, tt := range tests {
		if got := o.Conflicts(tt.offset, tt.length, tt.exclusive); got != tt.want {
			t.Errorf("Conflicts(%d, %d, %v) = %v, want %v", tt.offset, tt.length, tt.exclusive, got, tt.want)
		}
	}
}
