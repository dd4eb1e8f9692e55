// Package admission decides about writes that are authorized: plug-ins complete an object before it is validated (a [Mutator])
// and refuse it after that (a [Validator]), in the order of upstream's kube-apiserver. [Chain] runs them, [Reader] is how they
// look at other objects, package plugins lists them.
//
// What is promised: a mutator sees each state that is about to be validated, so it runs again when a write starts again because
// somebody else was faster; all mutators run before the object is validated, all validators after it, the last one
// (ResourceQuota) right before the object is stored. A plug-in that does not concern a resource costs its writes nothing:
// a [Plan] says which ones do, made when a kind begins to be served.
//
// What is not promised: that an admitted object is stored. Who books something asks to be told with [Attributes.OnEnd].
//
// Start reading at Attributes and Chain.
package admission
