//go:build !nosmart

package drive

import (
	"bytes"
	"fmt"
	"io"

	"github.com/dswarbrick/smart/drivedb"
	"github.com/dswarbrick/smart/nvme"
	"github.com/dswarbrick/smart/scsi"

	"github.com/nvmeof-go/nvmeof/backend"
)

// A printer is a device of the library.
type printer interface {
	PrintSMART(*drivedb.DriveDb, io.Writer) error
	Close() error
}

func readNVMe(node string) (string, error) {
	d := nvme.NewNVMeDevice(node)
	if err := d.Open(); err != nil {
		return "", err
	}
	return text(d)
}

func readATA(node string) (string, error) {
	d, err := scsi.OpenSCSIAutodetect(node)
	if err != nil {
		return "", err
	}
	if _, ok := d.(*scsi.SATDevice); !ok { // for others the library's print function may panic
		_ = d.Close()
		return "", fmt.Errorf("%w: it answers as a SCSI disk", backend.ErrNoHealth)
	}
	return text(d)
}

// text returns what the library prints, up to an error. By its own description the library is unfinished, so a panic
// caused by an unexpected answer is treated as an error of the drive.
func text(d printer) (out string, err error) {
	var b bytes.Buffer
	defer d.Close()
	defer func() {
		if p := recover(); p != nil {
			out, err = b.String(), fmt.Errorf("cannot decode the drive's answer: %v", p)
		}
	}()
	err = d.PrintSMART(&drivedb.DriveDb{Drives: []drivedb.DriveModel{ataNames()}}, &b)
	return b.String(), err
}

// ataNames specifies how to print the attributes that this package knows.
func ataNames() drivedb.DriveModel {
	presets := map[string]drivedb.AttrConv{}
	for id, a := range ataAttributes {
		presets[fmt.Sprint(id)] = drivedb.AttrConv{Name: a.name, Conv: a.format}
	}
	return drivedb.DriveModel{Family: "DEFAULT", Presets: presets}
}
