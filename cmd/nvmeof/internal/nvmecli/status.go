package nvmecli

import (
	"fmt"
	"io"

	"github.com/nvmeof-go/nvmeof/capsule"
)

// Status returns the line with which nvme-cli reports a failed command.
func Status(s capsule.Status) string {
	return fmt.Sprintf("NVMe status: %s(%s)", StatusText(s), hexed(s))
}

// StatusJSON prints the report of a failed command with -o json.
func StatusJSON(w io.Writer, s capsule.Status) error {
	return writeJSON(w, object{{"error", StatusText(s)}, {"type", "nvme"}})
}

// ErrorJSON prints the report of any other error with -o json.
func ErrorJSON(w io.Writer, text string) error { return writeJSON(w, object{{"error", text}}) }

// FeatureStatusJSON prints the report of `nvme get-feature -o json`.
func FeatureStatusJSON(w io.Writer, s capsule.Status) error {
	return writeJSON(w, featureStatus(s))
}

func featureStatus(s capsule.Status) object {
	return object{{fmt.Sprintf("status: %d", s), []object{{{"error", StatusText(s)}, {"type", "nvme"}}}}}
}

// StatusText returns nvme-cli's text for a status.
func StatusText(s capsule.Status) string {
	switch text, ok := statusTexts[s.Code()]; {
	case ok:
		return text
	case s.SCT() == 7:
		return "Vendor Specific Status"
	case s.SCT() > 3:
		return "Unknown status"
	}
	return "unrecognized"
}

// statusTexts holds the texts of the statuses that package capsule knows, for I/O and admin commands. Fabrics commands
// use the same codes for other statuses.
var statusTexts = map[capsule.Status]string{
	capsule.StatusSuccess:                     "Successful Completion: The command completed without error",
	capsule.StatusInvalidOpcode:               "Invalid Command Opcode: A reserved coded value or an unsupported value in the command opcode field",
	capsule.StatusInvalidField:                "Invalid Field in Command: A reserved coded value or an unsupported value in a defined field",
	capsule.StatusCommandIDConflict:           "Command ID Conflict: The command identifier is already in use",
	capsule.StatusDataTransferError:           "Data Transfer Error: Transferring the data or metadata associated with a command experienced an error",
	capsule.StatusPowerLoss:                   "Commands Aborted due to Power Loss Notification: Indicates that the command was aborted due to a power loss notification",
	capsule.StatusInternalError:               "Internal Error: The command was not completed successfully due to an internal error",
	capsule.StatusAbortRequested:              "Command Abort Requested: The command was aborted due to an Abort command",
	capsule.StatusSQDeleted:                   "Command Aborted due to SQ Deletion: The command was aborted due to a Delete I/O Submission Queue",
	capsule.StatusFailedFused:                 "Command Aborted due to Failed Fused Command: The command was aborted due to the other command in a fused operation failing",
	capsule.StatusMissingFused:                "Command Aborted due to Missing Fused Command: The fused command was aborted due to the adjacent submission queue entry not containing a fused command",
	capsule.StatusInvalidNamespace:            "Invalid Namespace or Format: The namespace or the format of that namespace is invalid",
	capsule.StatusCommandSequence:             "Command Sequence Error: The command was aborted due to a protocol violation in a multi- command sequence",
	capsule.StatusSGLSegmentInvalid:           "Invalid SGL Segment Descriptor: The command includes an invalid SGL Last Segment or SGL Segment descriptor",
	capsule.StatusSGLCountInvalid:             "Invalid Number of SGL Descriptors: There is an SGL Last Segment descriptor or an SGL Segment descriptor in a location other than the last descriptor of a segment based on the length indicated",
	capsule.StatusSGLDataLength:               "Data SGL Length Invalid: The length of a Data SGL is too short or too long and the controller does not support SGL transfers longer than the amount of data to be transferred",
	capsule.StatusSGLMetadataLength:           "Metadata SGL Length Invalid: The length of a Metadata SGL is too short or too long and the controller does not support SGL transfers longer than the amount of data to be transferred",
	capsule.StatusSGLTypeInvalid:              "SGL Descriptor Type Invalid: The type of an SGL Descriptor is a type that is not supported by the controller",
	capsule.StatusCMBInvalid:                  "Invalid Use of Controller Memory Buffer: The attempted use of the Controller Memory Buffer is not supported by the controller",
	capsule.StatusPRPOffsetInvalid:            "PRP Offset Invalid: The Offset field for a PRP entry is invalid",
	capsule.StatusAtomicWriteUnit:             "Atomic Write Unit Exceeded: The length specified exceeds the atomic write unit size",
	capsule.StatusOperationDenied:             "Operation Denied: The command was denied due to lack of access rights",
	capsule.StatusSGLOffset:                   "SGL Offset Invalid: The offset specified in a descriptor is invalid",
	capsule.StatusHostIDInconsistent:          "Host Identifier Inconsistent Format: The NVM subsystem detected the simultaneous use of 64- bit and 128-bit Host Identifier values on different controllers",
	capsule.StatusKeepAliveExpired:            "Keep Alive Timer Expired: The Keep Alive Timer expired",
	capsule.StatusKeepAliveInvalid:            "Keep Alive Timeout Invalid: The Keep Alive Timeout value specified is invalid",
	capsule.StatusAbortedByPreempt:            "Command Aborted due to Preempt and Abort: The command was aborted due to a Reservation Acquire command",
	capsule.StatusSanitizeFailed:              "Sanitize Failed: The most recent sanitize operation failed and no recovery action has been successfully completed",
	capsule.StatusSanitizeInProgress:          "Sanitize In Progress: The requested function is prohibited while a sanitize operation is in progress",
	capsule.StatusSGLGranularity:              "SGL Data Block Granularity Invalid: The Address alignment or Length granularity for an SGL Data Block descriptor is invalid",
	capsule.StatusNotSupportedForCMB:          "Command Not Supported for Queue in CMB: The controller does not support Submission Queue in the Controller Memory Buffer or Completion Queue in the Controller Memory Buffer",
	capsule.StatusNamespaceWriteProtected:     "Namespace is Write Protected: The command is prohibited while the namespace is write protected",
	capsule.StatusCommandInterrupted:          "Command Interrupted: Command processing was interrupted and the controller is unable to successfully complete the command",
	capsule.StatusTransientTransport:          "Transient Transport Error: A transient transport error was detected",
	capsule.StatusProhibitedByLockdown:        "Command Prohibited by Command and Feature Lockdown: The command was aborted due to command execution being prohibited by the Command and Feature Lockdown",
	capsule.StatusAdminMediaNotReady:          "Admin Command Media Not Ready: The Admin command requires access to media and the media is not ready",
	capsule.StatusLBAOutOfRange:               "LBA Out of Range: The command references an LBA that exceeds the size of the namespace",
	capsule.StatusCapacityExceeded:            "Capacity Exceeded: Execution of the command has caused the capacity of the namespace to be exceeded",
	capsule.StatusNamespaceNotReady:           "Namespace Not Ready: The namespace is not ready to be accessed",
	capsule.StatusReservationConflict:         "Reservation Conflict: The command was aborted due to a conflict with a reservation held on the accessed namespace",
	capsule.StatusFormatInProgress:            "Format In Progress: A Format NVM command is in progress on the namespace",
	capsule.StatusInvalidValueSize:            "The value size is not valid",
	capsule.StatusInvalidKeySize:              "The KV key size is not valid",
	capsule.StatusKVKeyDoesNotExist:           "The Store If Key Exists (SIKE) bit is set to '1' in the Store Option field and the KV key does not exists",
	capsule.StatusUnrecoveredErrorKV:          "There was an unrecovered error when reading from the medium",
	capsule.StatusKeyExists:                   "The Store If No Key Exists (SINKE) bit is set to '1' in the Store Option field and the KV key exists",
	capsule.StatusCompletionQueueInvalid:      "Completion Queue Invalid: The Completion Queue identifier specified in the command does not exist",
	capsule.StatusInvalidQueueID:              "Invalid Queue Identifier: The creation of the I/O Completion Queue failed due to an invalid queue identifier specified as part of the command",
	capsule.StatusInvalidQueueSize:            "Invalid Queue Size: The host attempted to create an I/O Completion Queue with an invalid number of entries",
	capsule.StatusAbortLimitExceeded:          "Abort Command Limit Exceeded: The number of concurrently outstanding Abort commands has exceeded the limit indicated in the Identify Controller data structure",
	capsule.StatusAERLimitExceeded:            "Asynchronous Event Request Limit Exceeded: The number of concurrently outstanding Asynchronous Event Request commands has been exceeded",
	capsule.StatusInvalidFirmwareSlot:         "Invalid Firmware Slot: The firmware slot indicated is invalid or read only",
	capsule.StatusInvalidFirmwareImage:        "Invalid Firmware Image: The firmware image specified for activation is invalid and not loaded by the controller",
	capsule.StatusInvalidInterruptVector:      "Invalid Interrupt Vector: The creation of the I/O Completion Queue failed due to an invalid interrupt vector specified as part of the command",
	capsule.StatusInvalidLogPage:              "Invalid Log Page: The log page indicated is invalid",
	capsule.StatusInvalidFormat:               "Invalid Format: The LBA Format specified is not supported",
	capsule.StatusFeatureNotSaveable:          "Feature Identifier Not Saveable: The Feature Identifier specified does not support a saveable value",
	capsule.StatusFeatureNotChangeable:        "Feature Not Changeable: The Feature Identifier is not able to be changed",
	capsule.StatusFeatureNotNamespaceSpecific: "Feature Not Namespace Specific: The Feature Identifier specified is not namespace specific",
	capsule.StatusOverlappingRange:            "Overlapping Range: The downloaded firmware image has overlapping ranges",
	capsule.StatusNamespaceIDUnavailable:      "Namespace Identifier Unavailable: The number of namespaces supported has been exceeded",
	capsule.StatusNamespaceAlreadyAttached:    "Namespace Already Attached: The controller is already attached to the namespace specified",
	capsule.StatusNamespacePrivate:            "Namespace Is Private: The namespace is private and is already attached to one controller",
	capsule.StatusNamespaceNotAttached:        "Namespace Not Attached: The request to detach the controller could not be completed because the controller is not attached to the namespace",
	capsule.StatusControllerListInvalid:       "Controller List Invalid: The controller list provided contains invalid controller ids",
	capsule.StatusInvalidControllerID:         "Invalid Controller Identifier: An invalid controller id was specified",
	capsule.StatusANAAttachFailed:             "ANA Attach Failed: The controller is not attached to the namespace as a result of an ANA condition",
	capsule.StatusCommandSetNotSupported:      "The I/O command set is not supported",
	capsule.StatusConflictingAttributes:       "Conflicting Attributes: The attributes specified in the command are conflicting",
	capsule.StatusInvalidProtectionInfo:       "Invalid Protection Information: The command's Protection Information Field settings are invalid for the namespace's Protection Information format",
	capsule.StatusReadOnlyRange:               "Attempted Write to Read Only Range: The LBA range specified contains read-only blocks",
	capsule.StatusCommandSizeLimit:            "Command Size Limit Exceeded",
	capsule.StatusConnectInvalidHost:          "unrecognized",
	capsule.StatusInvalidQueueType:            "Incompatible Namespace or Format",
	capsule.StatusDiscoverRestart:             "unrecognized",
	capsule.StatusAuthenticationRequired:      "unrecognized",
	capsule.StatusWriteFault:                  "Write Fault: The write data could not be committed to the media",
	capsule.StatusUnrecoveredReadError:        "Unrecovered Read Error: The read data could not be recovered from the media",
	capsule.StatusGuardCheck:                  "End-to-end Guard Check Error: The command was aborted due to an end-to-end guard check failure",
	capsule.StatusApplicationTagCheck:         "End-to-end Application Tag Check Error: The command was aborted due to an end-to-end application tag check failure",
	capsule.StatusReferenceTagCheck:           "End-to-end Reference Tag Check Error: The command was aborted due to an end-to-end reference tag check failure",
	capsule.StatusCompareFailure:              "Compare Failure: The command failed due to a miscompare during a Compare command",
	capsule.StatusAccessDenied:                "Access Denied: Access to the namespace and/or LBA range is denied due to lack of access rights",
	capsule.StatusDeallocatedBlock:            "Deallocated or Unwritten Logical Block: The command failed due to an attempt to read from or verify an LBA range containing a deallocated or unwritten logical block",
	capsule.StatusStorageTagCheck:             "End-to-End Storage Tag Check Error: The command was aborted due to an end-to-end storage tag check failure",
	capsule.StatusInternalPathError:           "Internal Path Error: An internal error specific to the controller processing the command prevented completion",
	capsule.StatusANAPersistentLoss:           "Asymmetric Access Persistent Loss: The controller is in a persistent loss state with the requested namespace",
	capsule.StatusANAInaccessible:             "Asymmetric Access Inaccessible: The controller is in an inaccessible state with the requested namespace",
	capsule.StatusANATransition:               "Asymmetric Access Transition: The controller is currently transitioning states with the requested namespace",
	capsule.StatusControllerPathError:         "Controller Pathing Error: A pathing error was detected by the controller",
	capsule.StatusHostPathError:               "Host Pathing Error: A pathing error was detected by the host",
	capsule.StatusAbortedByHost:               "Command Aborted By Host: The command was aborted as a result of host action",
}
