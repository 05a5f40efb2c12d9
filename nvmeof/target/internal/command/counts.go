package command

import "github.com/nvmeof-go/nvmeof/capsule"

// Counts are what one queue has done. They belong to its shard.
type Counts struct {
	Commands, Answers     uint64
	ReadBytes, WriteBytes uint64
}

// answered notes a response without data: of a write, if it succeeded.
func (c *Counts) answered(r *Request, s capsule.Status) {
	c.Answers++
	if s.OK() && capsule.IOOpcode(r.Cmd.Opcode) == capsule.IOWrite {
		c.WriteBytes += uint64(len(r.Data))
	}
}

// sent notes a response with data.
func (c *Counts) sent(bytes int) {
	c.Answers++
	c.ReadBytes += uint64(bytes)
}
