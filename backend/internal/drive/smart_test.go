//go:build !nosmart

package drive

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/dswarbrick/smart/ata"
	"github.com/dswarbrick/smart/drivedb"

	"github.com/nvmeof-go/nvmeof/backend"
)

// smartPage is the SMART READ DATA of a SATA SSD: attributes of 12 bytes each, in the layout of ATA: number, flags,
// value, worst, raw (6 bytes), reserved.
var smartPage = append([]byte{1, 0}, bytes.Join([][]byte{
	{0x05, 0x33, 0x00, 0x64, 0x64, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00}, // reallocated sectors 0
	{0x09, 0x32, 0x00, 0x5f, 0x5f, 0x2d, 0x57, 0x00, 0x00, 0x00, 0x00, 0x00}, // 22317 hours
	{0x0c, 0x32, 0x00, 0x63, 0x63, 0x39, 0x02, 0x00, 0x00, 0x00, 0x00, 0x00}, // 569 power cycles
	{0xb1, 0x13, 0x00, 0x5a, 0x5a, 0xa5, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00}, // wear levelling: value 90
	{0xbb, 0x32, 0x00, 0x64, 0x64, 0x03, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00}, // uncorrectable errors 3
	{0xbe, 0x32, 0x00, 0x44, 0x2f, 0x20, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00}, // airflow 32 °C
	{0xeb, 0x12, 0x00, 0x63, 0x63, 0x4e, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00}, // one we do not know
	{0xf1, 0x32, 0x00, 0x63, 0x63, 0x00, 0xe1, 0xf5, 0x05, 0x0a, 0x00, 0x00}, // LBAs written
}, nil)...)

func TestATA(t *testing.T) {
	var page ata.SmartPage
	full := append(bytes.Clone(smartPage), make([]byte, 362-len(smartPage))...)
	if err := binary.Read(bytes.NewReader(full), binary.LittleEndian, &page); err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	ata.PrintSMARTPage(page, ataNames(), &b)
	want := backend.Health{
		Known: backend.HealthTemperature | backend.HealthPowerOnHours | backend.HealthPowerCycles |
			backend.HealthMediaErrors | backend.HealthUsed,
		Temperature: 305, PowerOnHours: 22317, PowerCycles: 569, MediaErrors: 3, Used: 10,
	}
	if got, err := parseATA(b.String()); err != nil || got != want {
		t.Errorf("%+v, %v\nwant %+v, of\n%s", got, err, want, b.String())
	}
	if _, err := parseATA("\nSMART structure version: 0\n"); err == nil {
		t.Error("an empty table has a health")
	}
}

type printerFunc func(io.Writer) error

func (f printerFunc) PrintSMART(_ *drivedb.DriveDb, w io.Writer) error { return f(w) }
func (f printerFunc) Close() error                                     { return nil }

func TestLibraryPanics(t *testing.T) {
	out, err := text(printerFunc(func(io.Writer) error { panic("index out of range") }))
	if out != "" || err == nil || !strings.Contains(err.Error(), "index out of range") {
		t.Errorf("%q, %v", out, err)
	}
	fault := errors.New("fault")
	out, err = text(printerFunc(func(w io.Writer) error { io.WriteString(w, nvmeText); return fault }))
	if out != nvmeText || err != fault {
		t.Errorf("%q, %v, want %v", out, err, fault)
	}
	// The text printed before an error may be sufficient or not.
	d := &drive{read: func() (string, error) { return nvmeText, fault }, parse: parseNVMe}
	if h, err := d.health(); err != nil || h.Spare != 93 {
		t.Errorf("%+v, %v", h, err)
	}
	d.read = func() (string, error) { return "", fault }
	if _, err := d.health(); err != fault {
		t.Errorf("%v, want %v", err, fault)
	}
	out, err = text(printerFunc(func(w io.Writer) error { _, err := io.WriteString(w, "x"); return err }))
	if out != "x" || err != nil {
		t.Errorf("%q, %v", out, err)
	}
}
