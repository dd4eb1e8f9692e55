// Package configobjects keeps the Secrets and ConfigMaps that the pods of a node name: it is kubelet.Objects.
//
// Each object is watched by its name, which is all that the Node authorizer lets a node see, from Register of the first pod that
// names it until a while after Unregister of the last. All watches share the node's HTTP/2 connection. What is kept of an object is
// its protobuf form without managed fields; who asks gets a copy of his own.
//
// # What is promised
//
// A read of an object waits for the first answer about it, for at most ten seconds, and then shows what the API server last said: the
// object, or the error (NotFound, Forbidden ...). While the API server cannot be reached, objects stay as they were. Whoever asked with
// OnChange is told of the pods that name an object after it has changed, and can read the new one then.
//
// Objects that are immutable are not watched any more once they are known.
//
// # What is not promised
//
// A read does not ask the API server: it may be behind by the time an event takes.
//
// # Start reading
//
// [Store.Register] in store.go, then watcher.run in watcher.go.
package configobjects
