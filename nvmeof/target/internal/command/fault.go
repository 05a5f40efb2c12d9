package command

import "github.com/nvmeof-go/nvmeof/capsule"

// Blame notes the field for which the command is about to be refused, by the dword and
// the bit where it begins, for the error log.
func (r *Request) Blame(dword, bit int) { r.fault = capsule.ParameterAt(dword, bit) }

// Invalid is the status of a command refused for a field.
func (r *Request) Invalid(dword, bit int) capsule.Status {
	r.Blame(dword, bit)
	return invalidField
}

// Fault is the field for which the command was refused (NVMe base 2.0, 5.16.1.2:
// Parameter Error Location): what was blamed, or what the status alone tells.
func (r *Request) Fault(s capsule.Status) uint16 {
	at := capsule.ParameterAt
	switch s.Code() {
	case capsule.StatusInvalidOpcode:
		return at(0, 0)
	case capsule.StatusCommandIDConflict:
		return at(0, 16)
	case capsule.StatusInvalidNamespace, capsule.StatusFeatureNotNamespaceSpecific:
		return at(1, 0)
	case capsule.StatusSGLOffset:
		return at(6, 0)
	case capsule.StatusSGLDataLength, capsule.StatusSGLSegmentInvalid, capsule.StatusSGLCountInvalid:
		return at(8, 0)
	case capsule.StatusSGLTypeInvalid:
		return at(9, 28)
	case capsule.StatusInvalidLogPage:
		return at(10, 0)
	case capsule.StatusFeatureNotSaveable:
		return at(10, 31)
	case capsule.StatusLBAOutOfRange:
		switch capsule.IOOpcode(r.Cmd.Opcode) {
		case capsule.IODatasetManagement, capsule.IOCopy: // they have ranges in their data
		default:
			return at(10, 0)
		}
	}
	return r.fault
}

// FinishWrong answers a command whose capsule is malformed.
func (r *Request) FinishWrong() {
	s := r.Link.Wrong()
	if s.Code() == capsule.StatusInvalidField {
		switch kind, _ := r.Cmd.SGL.Classify(); {
		case r.Cmd.Flags.PSDT() != capsule.PSDTSGLContiguous:
			r.Blame(0, 14)
		case kind == capsule.SGLKindInvalid, kind == capsule.SGLKindInCapsule:
			r.Blame(9, 24)
		case kind != capsule.SGLKindLastSegment: // else it is of a descriptor in the list
			r.Blame(8, 0)
		}
	}
	r.Finish(s)
}
