// Package impersonation lets a caller act as somebody else, when it says so in the headers Impersonate-User, -Group, -Uid
// and -Extra-KEY and is allowed to: for everything it wants to be, the authorizer is asked.
//
// A caller may be allowed in one of two ways. Constrained (KEP-5284): verb "impersonate:MODE" on what it wants to be and
// "impersonate-on:MODE:VERB" on what it then asks for, where the mode follows from who is wanted: its own node, any node, a
// service account, another user. Or, from before that, verb "impersonate" on what it wants to be, for all requests alike.
//
// Start with [Wanted] and [Check].
package impersonation
