package driver

import (
	"slices"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/nvmeof-go/nvmeof/cmd/nvmeof-csi/internal/volumes"
)

// fileSystems lists the file systems that a volume may have. The first is the default.
var fileSystems = []string{"ext4", "xfs"}

// singleNode lists the modes in which one node has a volume.
var singleNode = []csi.VolumeCapability_AccessMode_Mode{
	csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER, csi.VolumeCapability_AccessMode_SINGLE_NODE_READER_ONLY,
	csi.VolumeCapability_AccessMode_SINGLE_NODE_SINGLE_WRITER, csi.VolumeCapability_AccessMode_SINGLE_NODE_MULTI_WRITER,
}

// readers lists the modes without writers.
var readers = []csi.VolumeCapability_AccessMode_Mode{
	csi.VolumeCapability_AccessMode_SINGLE_NODE_READER_ONLY, csi.VolumeCapability_AccessMode_MULTI_NODE_READER_ONLY,
}

// severalWriters lists the modes with several writers. They are not possible with one of these file systems, which
// only one machine at a time may mount for writing.
var severalWriters = []csi.VolumeCapability_AccessMode_Mode{
	csi.VolumeCapability_AccessMode_MULTI_NODE_SINGLE_WRITER, csi.VolumeCapability_AccessMode_MULTI_NODE_MULTI_WRITER,
}

// grantOf returns the access of a node to which a volume is published in a mode.
func grantOf(mode csi.VolumeCapability_AccessMode_Mode, readOnly bool) volumes.Grant {
	readOnly = readOnly || slices.Contains(readers, mode)
	return volumes.Grant{ReadOnly: readOnly, Only: slices.Contains(singleNode, mode),
		NoWriter: mode == csi.VolumeCapability_AccessMode_MULTI_NODE_READER_ONLY || mode == csi.VolumeCapability_AccessMode_MULTI_NODE_SINGLE_WRITER && !readOnly}
}

// unsupported returns why a volume cannot be used with a capability; "": it can.
func unsupported(c *csi.VolumeCapability) string {
	mode := c.GetAccessMode().GetMode()
	several := slices.Contains(severalWriters, mode)
	if !several && !slices.Contains(singleNode, mode) && mode != csi.VolumeCapability_AccessMode_MULTI_NODE_READER_ONLY {
		return "access mode " + mode.String() + " is not supported"
	}
	switch t := c.GetAccessType().(type) {
	case *csi.VolumeCapability_Block:
		return ""
	case *csi.VolumeCapability_Mount:
		if fs := t.Mount.GetFsType(); fs != "" && !slices.Contains(fileSystems, fs) {
			return "file system " + fs + " is not supported: want ext4 or xfs"
		}
		if several {
			return "access mode " + mode.String() + " needs a block volume: ext4 and xfs can be mounted on one node only"
		}
		return ""
	}
	return "the access type is missing: mount or block"
}

// checkCapability rejects a capability that is missing or not supported.
func checkCapability(c *csi.VolumeCapability) error {
	if c == nil {
		return missing("volume capability")
	}
	if why := unsupported(c); why != "" {
		return status.Error(codes.InvalidArgument, why)
	}
	return nil
}

func missing(what string) error { return status.Error(codes.InvalidArgument, what+" is missing") }

// required rejects a request in which a field is empty. fields are pairs of names and values.
func required(fields ...string) error {
	for i := 0; i < len(fields); i += 2 {
		if fields[i+1] == "" {
			return missing(fields[i])
		}
	}
	return nil
}
