package fio

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
)

// fields are a JSON object whose keys stay in order.
type fields []field

type field struct {
	key   string
	value any
}

func (fs fields) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, f := range fs {
		if i > 0 {
			b.WriteByte(',')
		}
		key, err := json.Marshal(f.key)
		if err != nil {
			return nil, err
		}
		value, err := json.Marshal(f.value)
		if err != nil {
			return nil, err
		}
		b.Write(key)
		b.WriteByte(':')
		b.Write(value)
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// number is a float that has a decimal point, so that readers take it for one.
type number float64

func (n number) MarshalJSON() ([]byte, error) { return []byte(fmt.Sprintf("%.6f", float64(n))), nil }

func decimal(n uint64) string { return strconv.FormatUint(n, 10) }

// numbers are an object of shares under names.
func numbers(names []string, values []float64) (fs fields) {
	for i, name := range names {
		fs = append(fs, field{name, number(values[i])})
	}
	return fs
}

func options(all []Option) (fs fields) {
	for _, o := range all {
		fs = append(fs, field{o.Name, o.Value})
	}
	return fs
}
