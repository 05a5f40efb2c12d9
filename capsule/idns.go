package capsule

// LBAFormat describes one format of logical blocks.
type LBAFormat struct {
	MS    uint16 // metadata bytes per block
	LBADS uint8  // block size is 1 << LBADS bytes
	RP    uint8  // relative performance, 0 best to 3
}

// IdentifyNamespace is the data of Identify CNS 00h (NVM command set 1.0, 4.1.5.1).
type IdentifyNamespace struct {
	NSZE, NCAP, NUSE                    uint64 // blocks
	NSFEAT, NLBAF, FLBAS, MC, DPC, DPS  uint8
	NMIC, RESCAP, FPI, DLFEAT           uint8
	NAWUN, NAWUPF, NACWU                uint16
	NABSN, NABO, NABSPF, NOIOB          uint16
	NVMCAP                              Uint128 // bytes
	NPWG, NPWA, NPDG, NPDA, NOWS, MSSRL uint16
	MCL                                 uint32
	MSRC, KPIOS, NULBAF                 uint8
	KPIODAAG, ANAGRPID                  uint32
	NSATTR                              uint8
	NVMSETID, ENDGID                    uint16
	NGUID                               [16]byte
	EUI64                               [8]byte
	LBAF                                [64]LBAFormat
	WriteVerifier                       WriteVerifier
}

// Bits of NSFEAT, NMIC, DLFEAT and NSATTR.
const (
	NSFEATThin        uint8 = 1 << 0
	NSFEATAtomic      uint8 = 1 << 1 // NAWUN, NAWUPF and NACWU are set
	NSFEATDealloc     uint8 = 1 << 2 // reading deallocated blocks is an error that can be reported
	NSFEATOptimal     uint8 = 1 << 4 // NPWG and the fields after it are set
	NMICShared        uint8 = 1 << 0
	DLFEATReadsZero   uint8 = 1 << 0 // deallocated blocks read as zero
	DLFEATWriteZeroes uint8 = 1 << 3 // Write Zeroes can deallocate
	NSATTRWriteProt   uint8 = 1 << 0
)

// Format returns the format in use.
func (n *IdentifyNamespace) Format() LBAFormat {
	return n.LBAF[n.FLBAS&0xf|n.FLBAS>>1&0x30]
}

func (n *IdentifyNamespace) fields(l layout) {
	u64(l, 0, &n.NSZE)
	u64(l, 8, &n.NCAP)
	u64(l, 16, &n.NUSE)
	u8(l, 24, &n.NSFEAT)
	u8(l, 25, &n.NLBAF)
	u8(l, 26, &n.FLBAS)
	u8(l, 27, &n.MC)
	u8(l, 28, &n.DPC)
	u8(l, 29, &n.DPS)
	u8(l, 30, &n.NMIC)
	u8(l, 31, &n.RESCAP)
	u8(l, 32, &n.FPI)
	u8(l, 33, &n.DLFEAT)
	u16(l, 34, &n.NAWUN)
	u16(l, 36, &n.NAWUPF)
	u16(l, 38, &n.NACWU)
	u16(l, 40, &n.NABSN)
	u16(l, 42, &n.NABO)
	u16(l, 44, &n.NABSPF)
	u16(l, 46, &n.NOIOB)
	l.u128(48, &n.NVMCAP)
	u16(l, 64, &n.NPWG)
	u16(l, 66, &n.NPWA)
	u16(l, 68, &n.NPDG)
	u16(l, 70, &n.NPDA)
	u16(l, 72, &n.NOWS)
	u16(l, 74, &n.MSSRL)
	u32(l, 76, &n.MCL)
	u8(l, 80, &n.MSRC)
	u8(l, 81, &n.KPIOS)
	u8(l, 82, &n.NULBAF)
	u32(l, 84, &n.KPIODAAG)
	u32(l, 92, &n.ANAGRPID)
	u8(l, 99, &n.NSATTR)
	u16(l, 100, &n.NVMSETID)
	u16(l, 102, &n.ENDGID)
	l.bytes(104, n.NGUID[:])
	l.bytes(120, n.EUI64[:])
	for i := range n.LBAF {
		u16(l, 128+4*i, &n.LBAF[i].MS)
		u8(l, 130+4*i, &n.LBAF[i].LBADS)
		u8(l, 131+4*i, &n.LBAF[i].RP)
	}
	n.WriteVerifier.field(l, 384)
}

// DecodeIdentifyNamespace decodes the 4096 bytes at the start of b.
func DecodeIdentifyNamespace(b []byte) (n IdentifyNamespace, err error) {
	l, err := decoder(b, IdentifySize)
	if err == nil {
		n.fields(l)
	}
	return n, err
}

// Encode fills the first 4096 bytes of b.
func (n *IdentifyNamespace) Encode(b []byte) { n.fields(encoder(b, IdentifySize)) }

// IdentifyNamespaceIndependent is the data of Identify CNS 08h: what does not depend on the namespace's I/O command set
// (NVMe base 2.0, 5.17.2.8).
type IdentifyNamespaceIndependent struct {
	NSFEAT, NMIC, RESCAP, FPI uint8
	ANAGRPID                  uint32
	NSATTR                    uint8
	NVMSETID, ENDGID          uint16
	NSTAT, KPIOS              uint8
	MAXKT                     uint16 // keys of key per I/O
	RGRPID                    uint32 // reachability group
}

// NSTATReady says that the namespace is ready.
const NSTATReady uint8 = 1 << 0

func (n *IdentifyNamespaceIndependent) fields(l layout) {
	u8(l, 0, &n.NSFEAT)
	u8(l, 1, &n.NMIC)
	u8(l, 2, &n.RESCAP)
	u8(l, 3, &n.FPI)
	u32(l, 4, &n.ANAGRPID)
	u8(l, 8, &n.NSATTR)
	u16(l, 10, &n.NVMSETID)
	u16(l, 12, &n.ENDGID)
	u8(l, 14, &n.NSTAT)
	u8(l, 15, &n.KPIOS)
	u16(l, 16, &n.MAXKT)
	u32(l, 20, &n.RGRPID)
}

// DecodeIdentifyNamespaceIndependent decodes the 4096 bytes at the start of b.
func DecodeIdentifyNamespaceIndependent(b []byte) (n IdentifyNamespaceIndependent, err error) {
	l, err := decoder(b, IdentifySize)
	if err == nil {
		n.fields(l)
	}
	return n, err
}

// Encode fills the first 4096 bytes of b.
func (n *IdentifyNamespaceIndependent) Encode(b []byte) { n.fields(encoder(b, IdentifySize)) }
