package nvmeof

import "testing"

func TestConcealed(t *testing.T) {
	const key = "DHHC-1:01:QSET0Do5zXK8QmQFMyTn/1fIlbMc7cubbWxgSJEHjT2uJAKi:"
	for in, want := range map[string]string{
		"":                          "",
		"no key":                    "no key",
		key:                         "DHHC-1:(concealed)",
		"path " + key + " is new":   "path DHHC-1:(concealed) is new",
		key[:40] + "\n" + key + "!": "DHHC-1:(concealed)\nDHHC-1:(concealed)!",
		`"DHHC-1:NN:...:", as`:      `"DHHC-1:NN:...:", as`,
		"DHHC-1:":                   "DHHC-1:",
	} {
		if got := Concealed(in); got != want {
			t.Errorf("%q is %q, want %q", in, got, want)
		}
	}
	if got := Printable(key); got != "DHHC-1:(concealed)" {
		t.Error(got)
	}
}
