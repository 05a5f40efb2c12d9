package nvmecli

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/nvmeof-go/nvmeof/capsule"
)

// pages maps the kinds of data that controllers send to functions that print them as all of their commands do.
var pages = map[string]func(o Output, b []byte) error{
	"id-01": func(o Output, b []byte) error { return o.IdentifyController(b, true) },
	"id-00": func(o Output, b []byte) error { return o.IdentifyNamespace(1, b, true) },
	"id-03": func(o Output, b []byte) error { return o.Descriptors(1, b) },
	"id-02": func(o Output, b []byte) error { return o.NamespaceList(idsOf(b)) },
	"id-05": func(o Output, b []byte) error {
		ns, _ := capsule.DecodeIdentifyNamespace(b)
		nvm, _ := capsule.DecodeIdentifyNVMNamespace(b)
		return o.NVMNamespace(1, &ns, &nvm)
	},
	"id-08":  printer(capsule.DecodeIdentifyNamespaceIndependent, func(o Output, v *capsule.IdentifyNamespaceIndependent) error { return o.IndependentNamespace(1, v) }),
	"id-06":  printer(capsule.DecodeIdentifyNVMController, Output.NVMController),
	"log-02": printer(capsule.DecodeSMARTLog, func(o Output, v *capsule.SMARTLog) error { return o.SMART(1, v) }),
	"log-01": printer(capsule.DecodeErrorLogEntry, func(o Output, v *capsule.ErrorLogEntry) error { return o.Errors([]capsule.ErrorLogEntry{*v}) }),
	"log-0c": printer(capsule.ParseANALog, Output.ANA),
	"log-05": printer(capsule.DecodeEffectsLog, func(o Output, v *capsule.EffectsLog) error { return o.Effects([]Effects{{0, *v}}) }),
	"log-12": printer(capsule.DecodeFIDEffectsLog, Output.FeatureEffects),
	"log-13": printer(capsule.DecodeMIEffectsLog, Output.MIEffects),
	"log-03": printer(capsule.DecodeFirmwareLog, Output.Firmware),
	"log-00": printer(capsule.DecodeSupportedLog, Output.SupportedLogs),
	"log-80": printer(capsule.DecodeReservationLog, Output.ReservationNotification),
	"log-04": func(o Output, b []byte) error { return o.ChangedNamespaces(idsOf(b)) },
	"feat-16": func(o Output, b []byte) error {
		return o.Feature(Feature{ID: capsule.FID(b[0]), Value: uint32(b[1])<<8 | uint32(b[2]), Data: b[:512]})
	},
	"discover": func(o Output, b []byte) error {
		d := &Discovery{}
		for ; len(b) >= capsule.DiscoveryEntrySize; b = b[capsule.DiscoveryEntrySize:] {
			e, _ := capsule.DecodeDiscoveryEntry(b)
			d.Entries = append(d.Entries, e)
		}
		if o.JSON {
			return d.JSON(o.W)
		}
		return d.Text(o.W)
	},
	"resv-extended": func(o Output, b []byte) error {
		t, err := capsule.ParseReservationTable(b, true)
		if err != nil {
			return nil
		}
		return o.Reservations(&t, true)
	},
}

// printer returns a function that prints data that can be decoded.
func printer[T any](decode func([]byte) (T, error), print func(Output, *T) error) func(Output, []byte) error {
	return func(o Output, b []byte) error {
		v, err := decode(b)
		if err != nil {
			return nil
		}
		return print(o, &v)
	}
}

// FuzzPages checks that whatever a controller sends, the JSON is valid and a terminal receives no control characters.
func FuzzPages(f *testing.F) {
	for name := range pages {
		if name == "discover" {
			f.Add(name, make([]byte, 1024))
			continue
		}
		f.Add(name, page(f, name, capsule.IdentifySize))
	}
	f.Fuzz(func(t *testing.T, name string, b []byte) {
		print := pages[name]
		if print == nil {
			return
		}
		data := make([]byte, capsule.IdentifySize)
		copy(data, b)
		for _, o := range []Output{{}, {Human: true}, {JSON: true}, {JSON: true, Human: true}} {
			var out strings.Builder
			o.W, o.Device = &out, "nvme0"
			err := print(o, data)
			text := out.String()
			if err != nil || text == "" {
				continue // data that cannot be decoded is not printed
			}
			if o.JSON && !json.Valid([]byte(text)) {
				t.Fatalf("%s as JSON:\n%s", name, text)
			}
			if strings.ContainsFunc(text, func(r rune) bool { return unicode.IsControl(r) && r != '\n' && r != '\t' }) || !utf8.ValidString(text) {
				t.Fatalf("%s is printed as %q", name, text)
			}
		}
	})
}
