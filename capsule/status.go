package capsule

import "fmt"

// Status is the status field of a completion without its phase bit (NVMe base
// 2.0, 3.3.3.2.1): SC in bits 7:0, SCT in 10:8, CRD in 12:11, More in 13, Do
// Not Retry in 14. The constants have neither More nor DNR set.
type Status uint16

// Flags of a status.
const (
	StatusMore Status = 1 << 13 // details are in the error log
	StatusDNR  Status = 1 << 14 // the same command will fail again
)

// Generic command status (SCT 0).
const (
	StatusSuccess                 Status = 0x000
	StatusInvalidOpcode           Status = 0x001
	StatusInvalidField            Status = 0x002
	StatusCommandIDConflict       Status = 0x003
	StatusDataTransferError       Status = 0x004
	StatusPowerLoss               Status = 0x005
	StatusInternalError           Status = 0x006
	StatusAbortRequested          Status = 0x007
	StatusSQDeleted               Status = 0x008
	StatusFailedFused             Status = 0x009
	StatusMissingFused            Status = 0x00a
	StatusInvalidNamespace        Status = 0x00b
	StatusCommandSequence         Status = 0x00c
	StatusSGLSegmentInvalid       Status = 0x00d
	StatusSGLCountInvalid         Status = 0x00e
	StatusSGLDataLength           Status = 0x00f
	StatusSGLMetadataLength       Status = 0x010
	StatusSGLTypeInvalid          Status = 0x011
	StatusCMBInvalid              Status = 0x012
	StatusPRPOffsetInvalid        Status = 0x013
	StatusAtomicWriteUnit         Status = 0x014
	StatusOperationDenied         Status = 0x015
	StatusSGLOffset               Status = 0x016
	StatusHostIDInconsistent      Status = 0x018
	StatusKeepAliveExpired        Status = 0x019
	StatusKeepAliveInvalid        Status = 0x01a
	StatusAbortedByPreempt        Status = 0x01b
	StatusSanitizeFailed          Status = 0x01c
	StatusSanitizeInProgress      Status = 0x01d
	StatusSGLGranularity          Status = 0x01e
	StatusNotSupportedForCMB      Status = 0x01f
	StatusNamespaceWriteProtected Status = 0x020
	StatusCommandInterrupted      Status = 0x021
	StatusTransientTransport      Status = 0x022
	StatusProhibitedByLockdown    Status = 0x023
	StatusAdminMediaNotReady      Status = 0x024
	StatusLBAOutOfRange           Status = 0x080
	StatusCapacityExceeded        Status = 0x081
	StatusNamespaceNotReady       Status = 0x082
	StatusReservationConflict     Status = 0x083
	StatusFormatInProgress        Status = 0x084
	StatusInvalidValueSize        Status = 0x085
	StatusInvalidKeySize          Status = 0x086
	StatusKVKeyDoesNotExist       Status = 0x087
	StatusUnrecoveredErrorKV      Status = 0x088
	StatusKeyExists               Status = 0x089
)

// Command specific status (SCT 1). Values from 0x80 belong to the I/O command
// set on I/O commands and to fabrics on fabrics commands.
const (
	StatusCompletionQueueInvalid      Status = 0x100
	StatusInvalidQueueID              Status = 0x101
	StatusInvalidQueueSize            Status = 0x102
	StatusAbortLimitExceeded          Status = 0x103
	StatusAERLimitExceeded            Status = 0x105
	StatusInvalidFirmwareSlot         Status = 0x106
	StatusInvalidFirmwareImage        Status = 0x107
	StatusInvalidInterruptVector      Status = 0x108
	StatusInvalidLogPage              Status = 0x109
	StatusInvalidFormat               Status = 0x10a
	StatusFeatureNotSaveable          Status = 0x10d
	StatusFeatureNotChangeable        Status = 0x10e
	StatusFeatureNotNamespaceSpecific Status = 0x10f
	StatusOverlappingRange            Status = 0x114
	StatusNamespaceIDUnavailable      Status = 0x116
	StatusNamespaceAlreadyAttached    Status = 0x118
	StatusNamespacePrivate            Status = 0x119
	StatusNamespaceNotAttached        Status = 0x11a
	StatusControllerListInvalid       Status = 0x11c
	StatusInvalidControllerID         Status = 0x11f
	StatusANAAttachFailed             Status = 0x125
	StatusCommandSetNotSupported      Status = 0x129

	StatusConflictingAttributes Status = 0x180
	StatusInvalidProtectionInfo Status = 0x181
	StatusReadOnlyRange         Status = 0x182
	StatusCommandSizeLimit      Status = 0x183

	StatusConnectIncompatibleFormat Status = 0x180
	StatusConnectControllerBusy     Status = 0x181
	StatusConnectInvalidParam       Status = 0x182
	StatusConnectRestartDiscovery   Status = 0x183
	StatusConnectInvalidHost        Status = 0x184
	StatusInvalidQueueType          Status = 0x185
	StatusDiscoverRestart           Status = 0x190
	StatusAuthenticationRequired    Status = 0x191
)

// Media and data integrity errors (SCT 2).
const (
	StatusWriteFault           Status = 0x280
	StatusUnrecoveredReadError Status = 0x281
	StatusGuardCheck           Status = 0x282
	StatusApplicationTagCheck  Status = 0x283
	StatusReferenceTagCheck    Status = 0x284
	StatusCompareFailure       Status = 0x285
	StatusAccessDenied         Status = 0x286
	StatusDeallocatedBlock     Status = 0x287
	StatusStorageTagCheck      Status = 0x288
)

// Path related status (SCT 3).
const (
	StatusInternalPathError   Status = 0x300
	StatusANAPersistentLoss   Status = 0x301
	StatusANAInaccessible     Status = 0x302
	StatusANATransition       Status = 0x303
	StatusControllerPathError Status = 0x360
	StatusHostPathError       Status = 0x370
	StatusAbortedByHost       Status = 0x371
)

// SCT returns the status code type: 0 generic, 1 command specific, 2 media, 3 path.
func (s Status) SCT() uint8 { return uint8(s >> 8 & 7) }

// SC returns the status code.
func (s Status) SC() uint8 { return uint8(s) }

// Code returns the status without CRD, More and DNR, for comparison with constants.
func (s Status) Code() Status { return s & 0x7ff }

// CRD returns the command retry delay index, 0 for none.
func (s Status) CRD() uint8 { return uint8(s >> 11 & 3) }

// DNR reports whether Do Not Retry is set.
func (s Status) DNR() bool { return s&StatusDNR != 0 }

// OK reports whether the status is success.
func (s Status) OK() bool { return s.Code() == StatusSuccess }

// String returns the status in words with its numbers: "invalid field (0/02, DNR)".
func (s Status) String() string {
	name, ok := statusNames[s.Code()]
	if !ok {
		name = "status"
	}
	if s.DNR() {
		return fmt.Sprintf("%s (%d/%02x, DNR)", name, s.SCT(), s.SC())
	}
	return fmt.Sprintf("%s (%d/%02x)", name, s.SCT(), s.SC())
}
