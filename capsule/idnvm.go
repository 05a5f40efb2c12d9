package capsule

// IdentifyNVMNamespace is the data of Identify CNS 05h for the NVM command set (NVM command set 1.0, 4.1.5.3). It is
// all zeroes without protection information.
type IdentifyNVMNamespace struct {
	LBSTM uint64 // storage tag mask
	PIC   uint8  // protection information capabilities
	PIFA  uint8  // protection information format attribute
	ELBAF [64]uint32

	// Preferences of NVM command set 1.1 and later, in blocks: deallocation, reads.
	NPDGL, NPRG, NPRA, NORS, NPDAL, LBAPSS, TLBAAG uint32
}

func (n *IdentifyNVMNamespace) fields(l layout) {
	u64(l, 0, &n.LBSTM)
	u8(l, 8, &n.PIC)
	u8(l, 9, &n.PIFA)
	for i := range n.ELBAF {
		u32(l, 12+4*i, &n.ELBAF[i])
	}
	for i, v := range []*uint32{&n.NPDGL, &n.NPRG, &n.NPRA, &n.NORS, &n.NPDAL, &n.LBAPSS, &n.TLBAAG} {
		u32(l, 268+4*i, v)
	}
}

// DecodeIdentifyNVMNamespace decodes the 4096 bytes at the start of b.
func DecodeIdentifyNVMNamespace(b []byte) (n IdentifyNVMNamespace, err error) {
	l, err := decoder(b, IdentifySize)
	if err == nil {
		n.fields(l)
	}
	return n, err
}

// Encode fills the first 4096 bytes of b.
func (n *IdentifyNVMNamespace) Encode(b []byte) { n.fields(encoder(b, IdentifySize)) }

// IdentifyNVMController is the data of Identify CNS 06h for the NVM command set (NVM command set 1.0, 4.1.5.4): command
// size limits, 0 for none. VSL, WZSL and WUSL are exponents of 2 in units of the minimum memory page size.
type IdentifyNVMController struct {
	VSL, WZSL, WUSL uint8
	DMRL            uint8  // Dataset Management: maximum number of ranges
	DMRSL           uint32 // maximum blocks of a range
	DMSL            uint64 // maximum blocks of all ranges
	KPIOCAP         uint8  // key per I/O
	WZDSL           uint8  // Write Zeroes with deallocation
	AOCS            uint16 // admin optional command support
	VER             Version
	LBAMQF          uint8
}

func (c *IdentifyNVMController) fields(l layout) {
	u8(l, 0, &c.VSL)
	u8(l, 1, &c.WZSL)
	u8(l, 2, &c.WUSL)
	u8(l, 3, &c.DMRL)
	u32(l, 4, &c.DMRSL)
	u64(l, 8, &c.DMSL)
	u8(l, 16, &c.KPIOCAP)
	u8(l, 17, &c.WZDSL)
	u16(l, 18, &c.AOCS)
	u32(l, 20, &c.VER)
	u8(l, 24, &c.LBAMQF)
}

// DecodeIdentifyNVMController decodes the 4096 bytes at the start of b.
func DecodeIdentifyNVMController(b []byte) (c IdentifyNVMController, err error) {
	l, err := decoder(b, IdentifySize)
	if err == nil {
		c.fields(l)
	}
	return c, err
}

// Encode fills the first 4096 bytes of b.
func (c *IdentifyNVMController) Encode(b []byte) { c.fields(encoder(b, IdentifySize)) }
