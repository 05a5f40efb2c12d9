package inuse

import (
	"bytes"
	"fmt"
)

// formats are image formats, identified by bytes at an offset.
var formats = []struct {
	offset int
	magic  string
	name   string
}{
	{0, "QFI\xfb", "a qcow2 image"},
	{0, "QED\x00", "a QED image"},
	{0, "KDMV", "a VMDK image"},
	{0, "COWD", "a VMDK image"},
	{0, "# Disk DescriptorFile", "the description of a VMDK image"},
	{0, "vhdxfile", "a VHDX image"},
	{0, "conectix", "a VHD image"},
	{64, "\x7f\x10\xda\xbe", "a VDI image"},
	{0, "WithoutFreeSpace", "a Parallels image"},
	{0, "WithouFreSpacExt", "a Parallels image"},
	{0, "LUKS\xba\xbe", "encrypted with LUKS"},
}

// Format checks the first bytes of a file, 512 or more, for the signature of an image format other than raw. It returns
// a sentence about the format for an administrator, or "".
func Format(head []byte) string {
	for _, f := range formats {
		if len(head) < f.offset || !bytes.HasPrefix(head[f.offset:], []byte(f.magic)) {
			continue
		}
		if f.name == "encrypted with LUKS" {
			return "it is encrypted with LUKS and is served encrypted: to serve the decrypted data, open it with cryptsetup and export the resulting device"
		}
		return fmt.Sprintf("it contains %s, which is served as it is, not as the disk in it: convert it with qemu-img convert -O raw, unless a host wrote it", f.name)
	}
	return ""
}
