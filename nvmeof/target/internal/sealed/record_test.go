package sealed

import "testing"

// TestSealed: a record that was changed, truncated or has another version is an error.
func TestSealed(t *testing.T) {
	b, err := Seal(3, []byte(`{"a":1}`))
	if err != nil {
		t.Fatal(err)
	}
	if body, err := Open(3, b); err != nil || string(body) != `{"a":1}` {
		t.Errorf("%s, %v", body, err)
	}
	if _, err := Open(2, b); err == nil {
		t.Error("another version is taken")
	}
	for i := range b {
		if _, err := Open(3, b[:i]); err == nil {
			t.Errorf("%d bytes are taken for a record", i)
		}
		bad := append([]byte(nil), b...)
		bad[i] ^= 4
		if body, err := Open(3, bad); err == nil && string(body) != `{"a":1}` {
			t.Errorf("byte %d changed gives %s", i, body)
		}
	}
}
