// Package bootstraptoken serves nodes that are about to join. [TokenCleaner] removes bootstrap tokens that have ended; [Signer] signs
// the kubeconfig in the ConfigMap kube-public/cluster-info with every token that allows it, so that who holds a token can trust
// what it reads there before it knows any certificate.
//
// Both watch only what they need: Secrets of type bootstrap.kubernetes.io/token in kube-system, and that one ConfigMap. Follows
// upstream's pkg/controller/bootstrap.
package bootstraptoken
