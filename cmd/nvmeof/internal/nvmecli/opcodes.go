package nvmecli

import "github.com/nvmeof-go/nvmeof/capsule"

// Names of commands of later specifications and of other command sets that package capsule does not have, or has
// differently from nvme-cli.
var (
	moreAdmin = map[capsule.AdminOpcode]string{
		0x21: "Discovery Information Management (DIM)", 0x22: "Fabric Zoning Receive", 0x25: "Fabric Zoning Lookup",
		0x28: "Clear Exported NVM Resource Configuration", 0x29: "Fabric Zoning Send",
		0x2a: "Create Exported NVM Subsystem", 0x2d: "Manage Exported NVM Subsystem", 0x31: "Manage Exported Namespace",
		0x35: "Manage Exported Port", 0x39: "Send Discovery Log Page", 0x3d: "Track Send", 0x3e: "Track Receive",
		0x41: "Migration Send", 0x42: "Migration Receive", 0x45: "Controller Data Queue",
		0x7f: "Fabrics Commands", 0x85: "Load Program", 0x88: "Program Activation Management", 0x89: "Memory Range Set Management",
	}
	moreIO = map[capsule.IOOpcode]string{
		0x79: "Zone Management Send", 0x7a: "Zone Management Receive", 0x7d: "Zone Append",
	}
)

// AdminName returns nvme-cli's name of an admin command, or other.
func AdminName(op capsule.AdminOpcode, other string) string {
	if name, ok := moreAdmin[op]; ok {
		return name
	}
	if op.Known() {
		return op.String()
	}
	return other
}

// IOName returns nvme-cli's name of an I/O command, or other.
func IOName(op capsule.IOOpcode, other string) string {
	if name, ok := moreIO[op]; ok {
		return name
	}
	if op.Known() && op != capsule.IOFabrics {
		return op.String()
	}
	return other
}
