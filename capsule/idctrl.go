package capsule

// IdentifyController is the data of Identify CNS 01h (NVMe base 2.0, 5.17.2.1). The fields have the specification's
// names; the methods below have their offsets.
type IdentifyController struct {
	VID, SSVID                           uint16
	SN                                   [20]byte // ASCII; see [PutText]
	MN                                   [40]byte
	FR                                   [8]byte
	RAB                                  uint8
	IEEE                                 [3]byte
	CMIC, MDTS                           uint8
	CNTLID                               ControllerID
	VER                                  Version
	RTD3R, RTD3E                         uint32 // microseconds
	OAES, CTRATT                         uint32
	RRLS                                 uint16
	BPCAP                                uint8
	NSSL                                 uint32
	PLSI                                 uint8
	CNTRLTYPE                            ControllerType
	FGUID                                [16]byte
	CRDT1, CRDT2, CRDT3                  uint16 // 100 ms
	CRCAP                                uint8
	NVMSR, VWCI, MEC                     uint8
	OACS                                 uint16
	ACL, AERL                            uint8 // 0's based
	FRMW, LPA, ELPE, NPSS, AVSCC, APSTA  uint8
	WCTEMP, CCTEMP                       uint16 // kelvins
	MTFA                                 uint16
	HMPRE, HMMIN                         uint32
	TNVMCAP, UNVMCAP                     Uint128
	RPMBS                                uint32
	EDSTT                                uint16
	DSTO, FWUG                           uint8
	KAS                                  uint16 // 100 ms
	HCTMA, MNTMT, MXTMT                  uint16
	SANICAP, HMMINDS                     uint32
	HMMAXD, NSETIDMAX, ENDGIDMAX         uint16
	ANATT, ANACAP                        uint8
	ANAGRPMAX, NANAGRPID, PELS           uint32
	DID                                  uint16 // domain
	KPIOC                                uint8
	MPTFAWR                              uint16
	MEGCAP                               Uint128
	TMPTHHA                              uint8
	CQT                                  uint16
	SQES, CQES                           uint8 // minimum in 3:0, maximum in 7:4, exponents of 2
	MAXCMD                               uint16
	NN                                   uint32
	ONCS, FUSES                          uint16
	FNA, VWC                             uint8
	AWUN, AWUPF                          uint16 // blocks, 0's based
	ICSVSCC, NWPC                        uint8
	ACWU, OCFS                           uint16
	SGLS, MNAN                           uint32
	MAXDNA                               Uint128
	MAXCNA, OAQD                         uint32
	RHIRI, HIRT                          uint8
	CMMRTD, NMMRTD                       uint16
	MINMRTG, MAXMRTG, TRATTR             uint8
	MCUDMQ, MNSUDMQ, MCMR, NMCMR, MCDQPC uint16
	SubNQN                               NQNField
	IOCCSZ, IORCSZ                       uint32 // units of 16 bytes
	ICDOFF                               uint16 // units of 16 bytes
	FCATT, MSDBD                         uint8
	OFCS                                 uint16
	DCTYPE                               uint8
	PSD                                  [32][32]byte // power state descriptors
}

func (c *IdentifyController) fields(l layout) {
	c.general(l)
	c.admin(l)
	c.command(l)
	c.fabrics(l)
}

// general covers bytes 0 to 255.
func (c *IdentifyController) general(l layout) {
	u16(l, 0, &c.VID)
	u16(l, 2, &c.SSVID)
	l.bytes(4, c.SN[:])
	l.bytes(24, c.MN[:])
	l.bytes(64, c.FR[:])
	u8(l, 72, &c.RAB)
	l.bytes(73, c.IEEE[:])
	u8(l, 76, &c.CMIC)
	u8(l, 77, &c.MDTS)
	u16(l, 78, &c.CNTLID)
	u32(l, 80, &c.VER)
	u32(l, 84, &c.RTD3R)
	u32(l, 88, &c.RTD3E)
	u32(l, 92, &c.OAES)
	u32(l, 96, &c.CTRATT)
	u16(l, 100, &c.RRLS)
	u8(l, 102, &c.BPCAP)
	u32(l, 104, &c.NSSL)
	u8(l, 110, &c.PLSI)
	u8(l, 111, &c.CNTRLTYPE)
	l.bytes(112, c.FGUID[:])
	u16(l, 128, &c.CRDT1)
	u16(l, 130, &c.CRDT2)
	u16(l, 132, &c.CRDT3)
	u8(l, 134, &c.CRCAP)
	u8(l, 253, &c.NVMSR)
	u8(l, 254, &c.VWCI)
	u8(l, 255, &c.MEC)
}

// admin covers bytes 256 to 511: admin command set attributes.
func (c *IdentifyController) admin(l layout) {
	u16(l, 256, &c.OACS)
	u8(l, 258, &c.ACL)
	u8(l, 259, &c.AERL)
	u8(l, 260, &c.FRMW)
	u8(l, 261, &c.LPA)
	u8(l, 262, &c.ELPE)
	u8(l, 263, &c.NPSS)
	u8(l, 264, &c.AVSCC)
	u8(l, 265, &c.APSTA)
	u16(l, 266, &c.WCTEMP)
	u16(l, 268, &c.CCTEMP)
	u16(l, 270, &c.MTFA)
	u32(l, 272, &c.HMPRE)
	u32(l, 276, &c.HMMIN)
	l.u128(280, &c.TNVMCAP)
	l.u128(296, &c.UNVMCAP)
	u32(l, 312, &c.RPMBS)
	u16(l, 316, &c.EDSTT)
	u8(l, 318, &c.DSTO)
	u8(l, 319, &c.FWUG)
	u16(l, 320, &c.KAS)
	u16(l, 322, &c.HCTMA)
	u16(l, 324, &c.MNTMT)
	u16(l, 326, &c.MXTMT)
	u32(l, 328, &c.SANICAP)
	u32(l, 332, &c.HMMINDS)
	u16(l, 336, &c.HMMAXD)
	u16(l, 338, &c.NSETIDMAX)
	u16(l, 340, &c.ENDGIDMAX)
	u8(l, 342, &c.ANATT)
	u8(l, 343, &c.ANACAP)
	u32(l, 344, &c.ANAGRPMAX)
	u32(l, 348, &c.NANAGRPID)
	u32(l, 352, &c.PELS)
	u16(l, 356, &c.DID)
	u8(l, 358, &c.KPIOC)
	u16(l, 360, &c.MPTFAWR)
	l.u128(368, &c.MEGCAP)
	u8(l, 384, &c.TMPTHHA)
	u16(l, 386, &c.CQT)
}

// command covers bytes 512 to 767: I/O command set attributes.
func (c *IdentifyController) command(l layout) {
	u8(l, 512, &c.SQES)
	u8(l, 513, &c.CQES)
	u16(l, 514, &c.MAXCMD)
	u32(l, 516, &c.NN)
	u16(l, 520, &c.ONCS)
	u16(l, 522, &c.FUSES)
	u8(l, 524, &c.FNA)
	u8(l, 525, &c.VWC)
	u16(l, 526, &c.AWUN)
	u16(l, 528, &c.AWUPF)
	u8(l, 530, &c.ICSVSCC)
	u8(l, 531, &c.NWPC)
	u16(l, 532, &c.ACWU)
	u16(l, 534, &c.OCFS)
	u32(l, 536, &c.SGLS)
	u32(l, 540, &c.MNAN)
	l.u128(544, &c.MAXDNA)
	u32(l, 560, &c.MAXCNA)
	u32(l, 564, &c.OAQD)
	u8(l, 568, &c.RHIRI)
	u8(l, 569, &c.HIRT)
	u16(l, 570, &c.CMMRTD)
	u16(l, 572, &c.NMMRTD)
	u8(l, 574, &c.MINMRTG)
	u8(l, 575, &c.MAXMRTG)
	u8(l, 576, &c.TRATTR)
	u16(l, 578, &c.MCUDMQ)
	u16(l, 580, &c.MNSUDMQ)
	u16(l, 582, &c.MCMR)
	u16(l, 584, &c.NMCMR)
	u16(l, 586, &c.MCDQPC)
}

// fabrics covers the subsystem's name, bytes 1792 to 2047, and power states.
func (c *IdentifyController) fabrics(l layout) {
	l.bytes(768, c.SubNQN[:])
	u32(l, 1792, &c.IOCCSZ)
	u32(l, 1796, &c.IORCSZ)
	u16(l, 1800, &c.ICDOFF)
	u8(l, 1802, &c.FCATT)
	u8(l, 1803, &c.MSDBD)
	u16(l, 1804, &c.OFCS)
	u8(l, 1806, &c.DCTYPE)
	for i := range c.PSD {
		l.bytes(2048+32*i, c.PSD[i][:])
	}
}

// DecodeIdentifyController decodes the 4096 bytes at the start of b.
func DecodeIdentifyController(b []byte) (c IdentifyController, err error) {
	l, err := decoder(b, IdentifySize)
	if err == nil {
		c.fields(l)
	}
	return c, err
}

// Encode fills the first 4096 bytes of b.
func (c *IdentifyController) Encode(b []byte) { c.fields(encoder(b, IdentifySize)) }
