package target

import "github.com/nvmeof-go/nvmeof/capsule"

// blame records the field because of which the command will fail, by the dword and the bit where it begins, for
// the error log.
func (r *request) blame(dword, bit int) { r.fault = capsule.ParameterAt(dword, bit) }

// invalid records the field and returns Invalid Field in Command.
func (r *request) invalid(dword, bit int) capsule.Status {
	r.blame(dword, bit)
	return invalidField
}

// location returns the field because of which the command failed (NVMe base 2.0, 5.16.1.2: Parameter Error
// Location): the recorded one, or the one that the status implies.
func (r *request) location(s capsule.Status) uint16 {
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
		switch capsule.IOOpcode(r.cmd.Opcode) {
		case capsule.IODatasetManagement, capsule.IOCopy: // their ranges are in the data
		default:
			return at(10, 0)
		}
	}
	return r.fault
}

// finishWrong fails a command whose capsule is malformed.
func (r *request) finishWrong() {
	s := r.link.Wrong()
	if s.Code() == capsule.StatusInvalidField {
		switch kind, _ := r.cmd.SGL.Classify(); {
		case r.cmd.Flags.PSDT() != capsule.PSDTSGLContiguous:
			r.blame(0, 14)
		case kind == capsule.SGLKindInvalid, kind == capsule.SGLKindInCapsule:
			r.blame(9, 24)
		case kind != capsule.SGLKindLastSegment: // otherwise it is in a descriptor of the list
			r.blame(8, 0)
		}
	}
	r.finish(s)
}
