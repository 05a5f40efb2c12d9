package peer

import (
	"github.com/nvmeof-go/nvmeof/capsule"
)

// A Name says which host logs in to which subsystem.
type Name struct {
	Subsystem, Host string
	ID              capsule.HostID
	KATO            uint32 // milliseconds, 0: none
}

// A Session is a host's side of an association.
type Session struct {
	Admin *Conn
	IO    []*Conn
	ID    capsule.ControllerID
}

// MemoryKey and MemoryVA are the R_Key and address of host memory that the commands of this package use.
const (
	MemoryKey uint32 = 0x1234
	MemoryVA  uint64 = 1 << 46
)

// Keyed returns a descriptor of n bytes of that memory.
func Keyed(n int) capsule.SGL { return capsule.KeyedSGL(MemoryVA, uint32(n), MemoryKey, false) }

// ConnectCommand returns the Connect command of a queue and its data, which are sent in the capsule.
func (n Name) ConnectCommand(qid capsule.QID, id capsule.ControllerID, size int) (capsule.Command, []byte) {
	cmd := capsule.FabricsCommand(capsule.FabricsConnect)
	connect := capsule.Connect{QID: qid, SQSIZE: uint16(size - 1)}
	if qid == 0 {
		connect.KATO = n.KATO
	}
	connect.Put(&cmd)
	cmd.SGL = capsule.InCapsuleSGL(0, capsule.ConnectDataSize)
	d := capsule.ConnectData{HostID: n.ID, CNTLID: id, SubNQN: capsule.MakeNQNField(n.Subsystem), HostNQN: capsule.MakeNQNField(n.Host)}
	data := make([]byte, capsule.ConnectDataSize)
	d.Encode(data)
	return cmd, data
}

// Queue connects a queue pair for a queue and sends Connect on it.
func (e *Endpoint) Queue(n Name, qid capsule.QID, id capsule.ControllerID, size int) (*Conn, capsule.ControllerID, error) {
	c := e.New()
	if err := c.Dial(c.REQ(qid, size)); err != nil {
		e.Forget(c)
		return nil, 0, err
	}
	r, err := c.Do(n.ConnectCommand(qid, id, size))
	if err != nil {
		_ = e.Say(c.Disconnect())
		e.Forget(c)
		return nil, 0, err
	}
	return c, capsule.ParseConnectResponse(r.Result).CNTLID, nil
}

// Login creates an association with the given number of I/O queues of 32 entries and enables its controller.
func (e *Endpoint) Login(n Name, queues int) (s Session, err error) {
	if s.Admin, s.ID, err = e.Queue(n, 0, capsule.ControllerIDDynamic, 32); err != nil {
		return s, err
	}
	if queues == 0 {
		return s, nil
	}
	if _, err = s.Admin.Do(Enable(), nil); err != nil {
		return s, err
	}
	features := capsule.Command{Opcode: capsule.Opcode(capsule.AdminSetFeatures), Flags: capsule.FlagsSGL, SGL: Keyed(0)}
	capsule.SetFeatures{FID: capsule.FeatureNumberOfQueues, Value: capsule.QueueCounts{Submission: queues, Completion: queues}.Value()}.Put(&features)
	if _, err = s.Admin.Do(features, nil); err != nil {
		return s, err
	}
	identify := capsule.Command{Opcode: capsule.Opcode(capsule.AdminIdentify), NSID: 1, Flags: capsule.FlagsSGL, SGL: Keyed(capsule.IdentifySize)}
	capsule.Identify{CNS: capsule.CNSNamespace}.Put(&identify)
	if _, err = s.Admin.Do(identify, nil); err != nil {
		return s, err
	}
	for i := range queues {
		c, _, err := e.Queue(n, capsule.QID(i+1), s.ID, 32)
		if err != nil {
			return s, err
		}
		s.IO = append(s.IO, c)
	}
	return s, nil
}

// Enable returns the command that enables a controller, as Linux sends it.
func Enable() capsule.Command {
	cmd := capsule.FabricsCommand(capsule.FabricsPropertySet)
	capsule.Property{Size: 4, Offset: uint32(capsule.PropertyCC), Value: uint64(capsule.CC(0x460060).WithEnable(true))}.Put(&cmd)
	return cmd
}

// Property returns a harmless command: Property Get of the version.
func Property() capsule.Command {
	cmd := capsule.FabricsCommand(capsule.FabricsPropertyGet)
	capsule.Property{Size: 4, Offset: uint32(capsule.PropertyVS)}.Put(&cmd)
	return cmd
}

// ReadWrite returns a command that reads or writes blocks of namespace 1, with the data in the host's memory.
func ReadWrite(op capsule.IOOpcode, first capsule.LBA, blocks, blockSize int) capsule.Command {
	cmd := capsule.Command{Opcode: capsule.Opcode(op), NSID: 1, Flags: capsule.FlagsSGL, SGL: Keyed(blocks * blockSize)}
	capsule.ReadWrite{SLBA: first, Blocks: uint32(blocks)}.Put(&cmd)
	return cmd
}
