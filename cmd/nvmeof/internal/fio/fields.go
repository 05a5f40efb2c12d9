package fio

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
)

// fields is a JSON object with ordered keys.
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

// number is a float that is printed with a decimal point, so that readers recognize it as one.
type number float64

func (n number) MarshalJSON() ([]byte, error) { return []byte(fmt.Sprintf("%.6f", float64(n))), nil }

func decimal(n uint64) string { return strconv.FormatUint(n, 10) }

// numbers returns an object of values with their names.
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
