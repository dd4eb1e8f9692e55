package write

import (
	"testing"

	"vigil/kinds"
	"vigil/kinds/all"
)

// samples are bodies of every kind that the server stores.
var samples = map[string]string{
	"namespaces":  `{"metadata":{"name":"x"}}`,
	"configmaps":  `{"metadata":{"name":"x"},"data":{"a":"b"},"binaryData":{"c":"AAEC"}}`,
	"secrets":     `{"metadata":{"name":"x"},"stringData":{"a":"b"}}`,
	"endpoints":   `{"metadata":{"name":"x"},"subsets":[{"addresses":[{"ip":"10.0.0.2"},{"ip":"10.0.0.1"}],"ports":[{"port":80}]}]}`,
	"events":      `{"metadata":{"name":"x"},"involvedObject":{"kind":"Pod","name":"p","namespace":"default"},"reason":"R","message":"m","type":"Normal"}`,
	"leases":      `{"metadata":{"name":"x"},"spec":{"holderIdentity":"me","leaseDurationSeconds":40,"renewTime":"2026-03-01T12:00:00.123456Z"}}`,
	"nodes":       `{"metadata":{"name":"x"},"spec":{"podCIDR":"10.1.0.0/24"},"status":{"capacity":{"cpu":"2","memory":"1024Mi"}}}`,
	"pods":        `{"metadata":{"name":"x"},"spec":{"containers":[{"name":"c","image":"example.com/i","ports":[{"containerPort":80}],"resources":{"limits":{"cpu":"0.5","memory":"1Gi"}},"readinessProbe":{"httpGet":{"port":"http"}}}],"volumes":[{"name":"v","secret":{"secretName":"s"}}]}}`,
	"services":    `{"metadata":{"name":"x"},"spec":{"clusterIP":"None","selector":{"a":"b"},"ports":[{"port":80}]}}`,
	"deployments": `{"metadata":{"name":"x"},"spec":{"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}}`,
	"replicasets": `{"metadata":{"name":"x"},"spec":{"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}}`,

	"mutatingadmissionpolicies":         `{"metadata":{"name":"x"},"spec":{"matchConstraints":{"resourceRules":[{"operations":["CREATE"],"apiGroups":[""],"apiVersions":["v1"],"resources":["pods"]}]},"reinvocationPolicy":"Never","mutations":[{"patchType":"JSONPatch","jsonPatch":{"expression":"[]"}}]}}`,
	"mutatingadmissionpolicybindings":   `{"metadata":{"name":"x"},"spec":{"policyName":"p","matchResources":{}}}`,
	"mutatingwebhookconfigurations":     `{"metadata":{"name":"x"},"webhooks":[{"name":"a.example.com","sideEffects":"None","admissionReviewVersions":["v1"],"clientConfig":{"service":{"name":"s","namespace":"n"}},"rules":[{"operations":["CREATE"],"apiGroups":[""],"apiVersions":["v1"],"resources":["pods"]}]}]}`,
	"validatingadmissionpolicies":       `{"metadata":{"name":"x"},"spec":{"matchConstraints":{"resourceRules":[{"operations":["CREATE"],"apiGroups":[""],"apiVersions":["v1"],"resources":["pods"]}]},"validations":[{"expression":"true"}]}}`,
	"validatingadmissionpolicybindings": `{"metadata":{"name":"x"},"spec":{"policyName":"p","validationActions":["Deny"]}}`,
	"validatingwebhookconfigurations":   `{"metadata":{"name":"x"},"webhooks":[{"name":"a.example.com","sideEffects":"None","admissionReviewVersions":["v1"],"clientConfig":{"url":"https://example.com/x"}}]}`,
	"flowschemas":                       `{"metadata":{"name":"x"},"spec":{"priorityLevelConfiguration":{"name":"p"}}}`,
	"prioritylevelconfigurations":       `{"metadata":{"name":"x"},"spec":{"type":"Limited","limited":{"limitResponse":{"type":"Queue","queuing":{}}}}}`,

	"apiservices":               `{"metadata":{"name":"v1.example.com"},"spec":{"group":"example.com","version":"v1","groupPriorityMinimum":100,"versionPriority":10,"service":{"name":"s","namespace":"n"}}}`,
	"customresourcedefinitions": `{"metadata":{"name":"widgets.example.com"},"spec":{"group":"example.com","scope":"Namespaced","names":{"plural":"widgets","kind":"Widget"},"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","properties":{"spec":{"type":"object","properties":{"n":{"type":"integer","default":3}}}}}}}]}}`,

	"serviceaccounts": `{"metadata":{"name":"x"},"imagePullSecrets":[{"name":"s"}]}`,
}

// What a client reads and writes back, or patches by nothing, changes nothing: defaults and prepare hooks have a fixed
// point. Else controllers that write what they read would never come to rest.
func TestKinds_WriteBack(t *testing.T) {
	h := newWorld(t)
	h.table = all.Table()
	h.Writer = New(Config{Table: h.table, Store: h.store, Cache: func(k *kinds.Kind) Cache { return &liveCache{store: h.store, kind: k} }})
	for _, k := range h.table.All() {
		if k.Path == "" {
			continue
		}
		t.Run(k.Resource, func(t *testing.T) {
			body, ok := samples[k.Resource]
			if !ok {
				t.Fatal("no sample")
			}
			created := h.mustCreate(k.Resource, body)
			name, rev := created.Name(), created.Revision()
			read, err := created.JSON()
			if err != nil {
				t.Fatal(err)
			}
			unchanged := func(what string, r *Result, err error) {
				t.Helper()
				if err != nil {
					t.Errorf("%s: %v", what, err)
				} else if r.Version.Revision() != rev {
					after, _ := r.Version.JSON()
					t.Errorf("%s changed\n%s\nto\n%s", what, read, after)
					rev = r.Version.Revision()
				}
			}
			r, err := h.update(k.Resource, name, "", "", string(read))
			unchanged("PUT", r, err)
			for contentType, patch := range map[string]string{mergePatch: `{}`, strategicPatch: `{}`, jsonPatch: `[]`} {
				r, err = h.patch(k.Resource, name, "", "", contentType, patch)
				unchanged(contentType, r, err)
			}
			if sub := k.Subresource("status"); sub != nil {
				r, err = h.update(k.Resource, name, "status", "", string(read))
				unchanged("PUT status", r, err)
				r, err = h.patch(k.Resource, name, "status", "", mergePatch, `{}`)
				unchanged("PATCH status", r, err)
			}
			if sub := k.Subresource("scale"); sub != nil {
				h.must(h.patch(k.Resource, name, "scale", "", mergePatch, `{"spec":{"replicas":3}}`))
				got, _ := h.stored(k.Resource, name)
				if at(got, "spec", "replicas") != 3.0 || at(got, "metadata", "generation") != 2.0 {
					t.Errorf("scaled: %v", got)
				}
			}
			h.must(h.patch(k.Resource, name, "", "", mergePatch, `{"metadata":{"labels":{"new":"label"}}}`))
			h.must(h.delete(k.Resource, name, "", ""))
		})
	}
}
