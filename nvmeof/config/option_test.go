package config

import (
	"reflect"
	"slices"
	"strings"
	"testing"
)

// onMachine has the working directory /here, and block devices in /dev.
var onMachine = Machine{
	IsDevice: func(path string) bool { return strings.HasPrefix(path, "/dev/") },
	Abs: func(path string) (string, error) {
		if !strings.HasPrefix(path, "/") {
			path = "/here/" + path
		}
		return path, nil
	},
}

func TestParseExport(t *testing.T) {
	for s, want := range map[string]Namespace{
		"mem:1MiB":                                {Memory: &Memory{1 << 20}},
		"mem:1m,bs=4096":                          {Memory: &Memory{1 << 20}, BlockSize: 4096},
		"/a/b.img":                                {File: &File{Path: "/a/b.img"}},
		"b.img,size=1GiB,thin,ro":                 {File: &File{Path: "/here/b.img", Size: 1 << 30, Thin: true, ReadOnly: true}},
		"b.img,buffered,bs=512":                   {File: &File{Path: "/here/b.img", Buffered: true}, BlockSize: 512},
		"/dev/sdx,force,ro":                       {Block: &Block{Path: "/dev/sdx", Force: true, ReadOnly: true}},
		"/with space/and=equal.img":               {File: &File{Path: "/with space/and=equal.img"}},
		"rbd:p/i@s,ro":                            {RBD: &RBD{Image: "p/i@s", ReadOnly: true}},
		"rbd:p/n/i,size=1GiB,conf=c,id=x,bs=4096": {RBD: &RBD{Image: "p/n/i", Size: 1 << 30, Conf: "/here/c", ID: "x"}, BlockSize: 4096},
		"mem:1MiB,resv=r":                         {Memory: &Memory{1 << 20}, Reservations: "/here/r"},
		"x,thin=false,engine=threads,ana-group=2,read-only,block-size=512": {
			File: &File{Path: "/here/x", Engine: "threads"}, ANAGroup: 2, ReadOnly: true, BlockSize: 512},
		"/dev/sdx,uuid=11111111-2222-3333-4444-555555555555": {Block: &Block{Path: "/dev/sdx"}, UUID: UUID{
			0x11, 0x11, 0x11, 0x11, 0x22, 0x22, 0x33, 0x33, 0x44, 0x44, 0x55, 0x55, 0x55, 0x55, 0x55, 0x55}},
	} {
		if got, err := ParseExport(s, onMachine); err != nil || !reflect.DeepEqual(*got, want) {
			t.Errorf("%q is %s, %v, want %s", s, JSON(got), err, JSON(want))
		}
	}
	for s, text := range map[string]string{
		"":                   "it is empty",
		"mem":                "for a file of that name, write ./mem",
		"mem:":               "size",
		"rbd:":               "rbd:POOL/IMAGE",
		"rbd:p/i,thin":       "not of images of Ceph",
		"mem:1MiB,bs=1k":     "512 or 4096",
		"mem:1MiB,bs=1024":   "512 or 4096",
		"x,sice=1GiB":        "did you mean size?",
		"x,rw":               "the options are ana-group, bs, buffered, conf, engine, eui64, fence, force, id, nguid, read-only, refuse-reservations, resv, ro, shared, size, thin, uuid",
		"x,":                 "unknown option",
		"x,size=0":           "size 0: write it as",
		"x,resv=":            "resv=FILE",
		"x,ro=maybe":         "want true or false",
		"mem:1MiB,thin":      "thin is an option of files, not of memory",
		"mem:1MiB,force":     "force is an option of files and block devices, not of memory",
		"/dev/sdx,size=1GiB": "size is an option of files and images of Ceph, not of block devices",
		"x,block=/dev/sdy":   "unknown option block",
		"x,path=/y":          "unknown option path",
		"x,nsid=4":           "unknown option nsid",
		"x,engine=fast":      "engine: fast is not known",
		"x,ana-group=1000":   "at most 128",
		"x\xff":              "not UTF-8",
		"x,resv=y\xff":       "not UTF-8",
	} {
		if n, err := ParseExport(s, onMachine); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%q: %v, %v, want an error with %q", s, n, err, text)
		}
	}
}

// TestOptions checks which flags commands have for an object.
func TestOptions(t *testing.T) {
	for _, c := range []struct {
		part  any
		names string
	}{
		{Namespace{}, "file size buffered thin force engine block memory rbd conf id block-size read-only shared uuid nguid eui64 ana-group fence refuse-reservations reservations"},
		{Host{}, "access key-file controller-key-file hashes dh-groups"},
		{Subsystem{}, "serial model min-controller-id max-controller-id nvme-version refuse-duplicates allow-any-host state listeners"},
		{Listener{}, "transport"},
		{Referral{}, "transport nqn port-id secure"},
	} {
		var names []string
		for _, o := range Options(c.part) {
			names = append(names, o.Name)
			for _, p := range o.Paths {
				if doc, _ := Describe(c.part, p); doc == "" {
					t.Errorf("%T: %s is not described", c.part, p)
				}
			}
		}
		if !slices.Equal(names, strings.Fields(c.names)) {
			t.Errorf("%T has %s", c.part, names)
		}
	}
}
