// Package encryption encrypts what etcd holds, as an EncryptionConfiguration (apiserver.config.k8s.io/v1) says: with
// aescbc, aesgcm, secretbox, KMS v2 or not at all (identity), by resource or wildcard (*.apps, *.*).
//
// [Keys] is the [store.Sealer] for it. Parsing, validation and the forms in etcd are upstream's own
// (k8s.io/apiserver/pkg/server/options/encryptionconfig), so either server reads what the other has written: a value is
// "k8s:enc:PROVIDER:VERSION:KEY NAME:" and what the provider makes of it, with the etcd key as additional data where the provider takes some.
//
// The first provider of a resource encrypts, all of them decrypt. A value that another than the first has encrypted is
// stale; the next write of the object rewrites it even when nothing else changes, which `vigil secrets rewrite` makes use of. To rotate
// a key: add the new one as the second on all servers, make it the first, rewrite, remove the old one.
//
// Not promised: protection of keys in etcd (names are in clear) or of what is in the memory of the server.
//
// Start reading at [Load].
package encryption
