// Package fields knows what Vigil does with every field that users may write into a spec, so that none is accepted and then forgotten.
//
// testdata has it as text: the name of a type, below it its fields, each with a verdict and where it is come to.
//
//	PodSpec
//		HostAliases    done  kubelet/etcfiles/hosts.go
//
// Verdicts:
//
//	done     somebody acts on the field: the file, or a file of the directory, names it
//	library  somebody does, through a package of k8s.io that is used for it
//	refused  what asks for it is not accepted, or waits with an event, by what is said there
//	held     what asks for it does not go on, and an event says why
//	warned   it is not heeded, and an event or a warning says so
//	dropped  it belongs to a feature that is off: it is not stored, and a warning says so
//	later    what heeds it is still to come: README says so in these words, under "What is not there yet"
//	none     nobody heeds it, upstream neither, for the reason that follows
//
// "Type * verdict ..." is about all fields of a type. The test goes through the types of k8s.io/api: a field that a new version brings
// fails it until somebody has said what is done with it, and so does a claim whose file does not name the field.
package fields
