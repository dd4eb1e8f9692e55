package framework

import "strings"

// Code says what a plug-in has decided.
type Code int

// Codes have upstream's names.
const (
	Success Code = iota
	// Error is a failure of the plug-in: the pod is tried again.
	Error
	// Unschedulable refuses a pod. It may help to remove other pods.
	Unschedulable
	// UnschedulableAndUnresolvable refuses a pod, and removing other pods would not help.
	UnschedulableAndUnresolvable
	// Skip says that the plug-in has nothing to do with the pod.
	Skip
)

// Status is what a plug-in has decided, and why. Nil is success. It is never changed, so that a plug-in can return the same one for
// each node.
type Status struct {
	code    Code
	reasons []string
	err     error
}

// NewStatus returns a status with reasons, in the words of upstream's events.
func NewStatus(code Code, reasons ...string) *Status { return &Status{code: code, reasons: reasons} }

// AsStatus returns an Error; nil for nil.
func AsStatus(err error) *Status {
	if err == nil {
		return nil
	}
	return &Status{code: Error, reasons: []string{err.Error()}, err: err}
}

// Code returns what was decided.
func (s *Status) Code() Code {
	if s == nil {
		return Success
	}
	return s.code
}

// Reasons returns why.
func (s *Status) Reasons() []string {
	if s == nil {
		return nil
	}
	return s.reasons
}

// Message returns the reasons in one line.
func (s *Status) Message() string { return strings.Join(s.Reasons(), ", ") }

// Err returns the error that an Error was made from; nil for all others.
func (s *Status) Err() error {
	if s == nil {
		return nil
	}
	return s.err
}

// IsRejected says that the pod was refused.
func (s *Status) IsRejected() bool {
	return s.Code() == Unschedulable || s.Code() == UnschedulableAndUnresolvable
}
