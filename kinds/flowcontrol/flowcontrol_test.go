package flowcontrol

import (
	"testing"
	"time"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	"k8s.io/apiserver/pkg/apis/flowcontrol/bootstrap"

	"vigil/kinds/kindtest"
)

const badSubdomain = `a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')`

func TestFlowSchema(t *testing.T) {
	row := FlowSchema()
	kindtest.Minimal(t, row, `{metadata: {name: x}, spec: {priorityLevelConfiguration: {name: p}}, status: {conditions: [{type: Dangling}]}}`,
		`{metadata: {name: x, generation: 1}, spec: {priorityLevelConfiguration: {name: p}, matchingPrecedence: 1000}}`)

	good := kindtest.From[*flowcontrolv1.FlowSchema](t, row, `{metadata: {name: x}, spec: {priorityLevelConfiguration: {name: p}, rules: [
		{subjects: [{kind: Group, group: {name: g}}], resourceRules: [{verbs: ["*"], apiGroups: [""], resources: [pods], namespaces: [ns]}]}]}}`)
	c := func(name, spec string, want ...string) kindtest.Case[flowcontrolv1.FlowSchema] {
		return kindtest.YAML[flowcontrolv1.FlowSchema](t, name, "spec: "+spec, want...)
	}
	rule := func(name, rule string, want ...string) kindtest.Case[flowcontrolv1.FlowSchema] {
		return c(name, `{rules: [`+rule+`]}`, want...)
	}
	const (
		group    = `subjects: [{kind: Group, group: {name: g}}]`
		pods     = `resourceRules: [{verbs: [get], apiGroups: [""], resources: [pods], namespaces: ["*"]}]`
		allVerbs = `"create", "delete", "deletecollection", "get", "list", "patch", "proxy", "update", "watch"`
	)
	kindtest.Create(t, row, good,
		c("precedence", `{matchingPrecedence: -1}`, "spec.matchingPrecedence: Invalid value: -1: must be a positive value"),
		c("high precedence", `{matchingPrecedence: 10001}`, "spec.matchingPrecedence: Invalid value: 10001: must not be greater than 10000"),
		c("exempt's precedence", `{matchingPrecedence: 1}`, "spec.matchingPrecedence: Invalid value: 1: only the schema named 'exempt' may have matchingPrecedence 1"),
		c("distinguisher", `{distinguisherMethod: {type: ByWeather}}`, `spec.distinguisherMethod.type: Unsupported value: "ByWeather": supported values: "ByNamespace", "ByUser"`),
		c("no level", `{priorityLevelConfiguration: {name: ""}}`, "spec.priorityLevelConfiguration.name: Required value: must reference a priority level"),
		c("level", `{priorityLevelConfiguration: {name: A}}`, `spec.priorityLevelConfiguration.name: Invalid value: "A": `+badSubdomain),
		rule("empty rule", `{}`, "spec.rules[0].subjects: Required value: subjects must contain at least one value",
			"spec.rules[0]: Required value: at least one of resourceRules and nonResourceRules has to be non-empty"),
		rule("subjects", `{`+pods+`, subjects: [{kind: Cat}, {kind: User}, {kind: User, user: {name: ""}, group: {name: g}}, {kind: ServiceAccount, serviceAccount: {name: "", namespace: ""}},
			{kind: ServiceAccount, serviceAccount: {name: A, namespace: A}}, {kind: ServiceAccount, serviceAccount: {name: "*", namespace: ns}}]}`,
			`spec.rules[0].subjects[0].kind: Unsupported value: "Cat": supported values: "Group", "ServiceAccount", "User"`,
			"spec.rules[0].subjects[1].user: Required value: user is required when subject kind is 'User'",
			"spec.rules[0].subjects[2].user.name: Required value",
			"spec.rules[0].subjects[2].group: Forbidden: group is forbidden when subject kind is not 'Group'",
			"spec.rules[0].subjects[3].serviceAccount.name: Required value",
			"spec.rules[0].subjects[3].serviceAccount.namespace: Required value: must specify namespace for service account",
			`spec.rules[0].subjects[4].serviceAccount.name: Invalid value: "A": `+badSubdomain,
			`spec.rules[0].subjects[4].serviceAccount.namespace: Invalid value: "A": a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')`),
		rule("resources", `{`+group+`, resourceRules: [{}, {verbs: [fly], apiGroups: ["*", a], resources: ["*", a], namespaces: ["*", a]}, {verbs: ["*", get], apiGroups: [a], resources: [a], namespaces: [A]},
			{verbs: [get], apiGroups: [a], resources: [a], clusterScope: true}]}`,
			"spec.rules[0].resourceRules[0].verbs: Required value: verbs must contain at least one value",
			"spec.rules[0].resourceRules[0].apiGroups: Required value: resource rules must supply at least one api group",
			"spec.rules[0].resourceRules[0].resources: Required value: resource rules must supply at least one resource",
			"spec.rules[0].resourceRules[0].namespaces: Required value: resource rules that are not cluster scoped must supply at least one namespace",
			`spec.rules[0].resourceRules[1].verbs: Unsupported value: ["fly"]: supported values: `+allVerbs,
			`spec.rules[0].resourceRules[1].apiGroups: Invalid value: ["*","a"]: if '*' is present, must not specify other api groups`,
			`spec.rules[0].resourceRules[1].resources: Invalid value: ["*","a"]: if '*' is present, must not specify other resources`,
			`spec.rules[0].resourceRules[1].namespaces: Invalid value: ["*","a"]: if '*' is present, must not specify other namespaces`,
			`spec.rules[0].resourceRules[2].verbs: Invalid value: ["*","get"]: if '*' is present, must not specify other verbs`,
			`spec.rules[0].resourceRules[2].namespaces[0]: Invalid value: "A": each member of this list must be '*' or a DNS-1123 label; a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')`),
		rule("paths", `{`+group+`, nonResourceRules: [{verbs: [get]}, {verbs: [get], nonResourceURLs: ["*", /a]}, {verbs: [get], nonResourceURLs: [/, /a/*, "", a, "/a b", //a, /a*, /*/*]}]}`,
			"spec.rules[0].nonResourceRules[0].nonResourceURLs: Required value: nonResourceURLs must contain at least one value",
			`spec.rules[0].nonResourceRules[1].nonResourceURLs: Invalid value: ["*","/a"]: if '*' is present, must not specify other non-resource URLs`,
			`spec.rules[0].nonResourceRules[2].nonResourceURLs[2]: Invalid value: "": must not be empty`,
			`spec.rules[0].nonResourceRules[2].nonResourceURLs[3]: Invalid value: "a": must start with slash`,
			`spec.rules[0].nonResourceRules[2].nonResourceURLs[4]: Invalid value: "/a b": must not contain white-space`,
			`spec.rules[0].nonResourceRules[2].nonResourceURLs[5]: Invalid value: "//a": must not contain double slash`,
			`spec.rules[0].nonResourceRules[2].nonResourceURLs[6]: Invalid value: "/a*": wildcard can only do suffix matching`,
			`spec.rules[0].nonResourceRules[2].nonResourceURLs[7]: Invalid value: "/*/*": wildcard can only do suffix matching`),
	)
	kindtest.UpdateSubresource(t, row, "status", good,
		kindtest.YAML[flowcontrolv1.FlowSchema](t, "conditions", `status: {conditions: [{}, {type: A}, {type: A}]}`,
			"status.conditions[0].type: Required value: must not be empty", `status.conditions[2].type: Duplicate value: "A"`),
		c("spec", `{matchingPrecedence: -1}`),
	)
	kindtest.Row(t, row, good, time.Now(), "x", "p", int64(1000), "<none>", "<unknown>", "?")
}

// What every server starts with is valid and stays as it is.
func TestMandatory(t *testing.T) {
	for _, schema := range bootstrap.MandatoryFlowSchemas {
		schema := schema.DeepCopy()
		if errs := FlowSchema().Validate(schema); len(errs) > 0 {
			t.Errorf("%s: %v", schema.Name, errs)
		}
		schema.Spec.MatchingPrecedence += 2
		if errs := FlowSchema().Validate(schema); len(errs) == 0 || errs[len(errs)-1].Detail != "spec of '"+schema.Name+"' must equal the fixed value" {
			t.Errorf("changed %s: %v", schema.Name, errs)
		}
	}
	for _, level := range bootstrap.MandatoryPriorityLevelConfigurations {
		level := level.DeepCopy()
		if errs := PriorityLevelConfiguration().Validate(level); len(errs) > 0 {
			t.Errorf("%s: %v", level.Name, errs)
		}
		if level.Name == "exempt" {
			level.Spec.Exempt.LendablePercent = kindtest.Ptr(int32(5))
			if errs := PriorityLevelConfiguration().Validate(level); len(errs) > 0 {
				t.Errorf("exempt with other shares: %v", errs)
			}
			continue
		}
		level.Spec.Limited.NominalConcurrencyShares = kindtest.Ptr(int32(77))
		if errs := PriorityLevelConfiguration().Validate(level); len(errs) != 1 || errs[0].Detail != "spec of '"+level.Name+"' must equal the fixed value" {
			t.Errorf("changed %s: %v", level.Name, errs)
		}
	}
}

func TestPriorityLevelConfiguration(t *testing.T) {
	row := PriorityLevelConfiguration()
	kindtest.Minimal(t, row, `{metadata: {name: x}, spec: {type: Limited, limited: {limitResponse: {type: Queue, queuing: {}}}}, status: {conditions: [{type: A}]}}`,
		`{metadata: {name: x, generation: 1}, spec: {type: Limited, limited: {nominalConcurrencyShares: 30, lendablePercent: 0, limitResponse: {type: Queue, queuing: {queues: 64, handSize: 8, queueLengthLimit: 50}}}}}`)
	kindtest.Minimal(t, row, `{metadata: {name: exempt}, spec: {type: Exempt}}`,
		`{metadata: {name: exempt, generation: 1}, spec: {type: Exempt, exempt: {nominalConcurrencyShares: 0, lendablePercent: 0}}}`)
	kindtest.Minimal(t, row, `{metadata: {name: x}, spec: {type: Limited, limited: {nominalConcurrencyShares: 0, limitResponse: {type: Reject}}}}`,
		`{metadata: {name: x, generation: 1}, spec: {type: Limited, limited: {nominalConcurrencyShares: 0, lendablePercent: 0, limitResponse: {type: Reject}}}}`)

	good := kindtest.From[*flowcontrolv1.PriorityLevelConfiguration](t, row, `{metadata: {name: x}, spec: {type: Limited, limited: {limitResponse: {type: Queue, queuing: {}}}}}`)
	c := func(name, spec string, want ...string) kindtest.Case[flowcontrolv1.PriorityLevelConfiguration] {
		return kindtest.YAML[flowcontrolv1.PriorityLevelConfiguration](t, name, "spec: "+spec, want...)
	}
	kindtest.Create(t, row, good,
		c("type", `{type: Wild}`, `spec.type: Unsupported value: "Wild": supported values: "Exempt", "Limited"`),
		c("exempt", `{type: Exempt, exempt: {nominalConcurrencyShares: -1, lendablePercent: 101}}`,
			`spec.type: Invalid value: "Exempt": type must be 'Exempt' if and only if name is 'exempt'`,
			"spec.limited: Forbidden: must be nil if the type is not Limited",
			"spec.exempt.nominalConcurrencyShares: Invalid value: -1: must be a non-negative integer",
			"spec.exempt.lendablePercent: Invalid value: 101: must be between 0 and 100, inclusive"),
		c("not limited", `{limited: null, exempt: {}}`,
			"spec.exempt: Forbidden: must be nil if the type is Limited", "spec.limited: Required value: must not be empty when type is Limited"),
		c("shares", `{limited: {nominalConcurrencyShares: -1, lendablePercent: -1, borrowingLimitPercent: -1}}`,
			"spec.limited.nominalConcurrencyShares: Invalid value: -1: must be a non-negative integer",
			"spec.limited.lendablePercent: Invalid value: -1: must be between 0 and 100, inclusive",
			"spec.limited.borrowingLimitPercent: Invalid value: -1: if specified, must be a non-negative integer"),
		c("response", `{limited: {limitResponse: {type: Shrug}}}`, `spec.limited.limitResponse.type: Unsupported value: "Shrug": supported values: "Queue", "Reject"`),
		c("rejecting queue", `{limited: {limitResponse: {type: Reject}}}`, "spec.limited.limitResponse.queuing: Forbidden: must be nil if limited.limitResponse.type is not Limited"),
		c("no queue", `{limited: {limitResponse: {queuing: null}}}`, "spec.limited.limitResponse.queuing: Required value: must not be empty if limited.limitResponse.type is Limited"),
		c("queues", `{limited: {limitResponse: {queuing: {queues: -1, handSize: -1, queueLengthLimit: -1}}}}`,
			"spec.limited.limitResponse.queuing.queueLengthLimit: Invalid value: -1: must be positive",
			"spec.limited.limitResponse.queuing.queues: Invalid value: -1: must be positive",
			"spec.limited.limitResponse.queuing.handSize: Invalid value: -1: must be positive"),
		c("many queues", `{limited: {limitResponse: {queuing: {queues: 10000001}}}}`,
			"spec.limited.limitResponse.queuing.queues: Invalid value: 10000001: must not be greater than 10000000",
			"spec.limited.limitResponse.queuing.handSize: Invalid value: 8: required entropy bits of deckSize 10000001 and handSize 8 should not be greater than 60"),
		c("hand", `{limited: {limitResponse: {queuing: {queues: 4}}}}`, "spec.limited.limitResponse.queuing.handSize: Invalid value: 8: should not be greater than queues (4)"),
	)
	kindtest.UpdateSubresource(t, row, "status", good,
		kindtest.YAML[flowcontrolv1.PriorityLevelConfiguration](t, "conditions", `status: {conditions: [{}]}`, "status.conditions[0].type: Required value: must not be empty"))
	kindtest.Row(t, row, good, time.Now(), "x", "Limited", int64(30), int64(64), int64(8), int64(50), "<unknown>")
}
