package storagemigration

import (
	"testing"
	"time"

	migrationv1 "k8s.io/api/storagemigration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"vigil/kinds/kindtest"
)

type (
	migration     = migrationv1.StorageVersionMigration
	migrationCase = kindtest.Case[migration]
)

func good() *migration {
	return &migration{ObjectMeta: metav1.ObjectMeta{Name: "x"}, Spec: migrationv1.StorageVersionMigrationSpec{Resource: metav1.GroupResource{Group: "apps", Resource: "deployments"}}}
}

func TestStorageVersionMigration(t *testing.T) {
	row := StorageVersionMigration()
	const minimal = `{metadata: {name: x}, spec: {resource: {resource: pods}}`
	kindtest.Minimal(t, row, minimal+`, status: {resourceVersion: "7"}}`, minimal+`}`)
	kindtest.Create(t, row, good(),
		migrationCase{
			Name: "no resource", Edit: func(m *migration) { m.Spec.Resource = metav1.GroupResource{} },
			Want: []string{"spec.resource.resource: Required value: resource is required to be set"},
		},
		migrationCase{
			Name: "names", Edit: func(m *migration) { m.Spec.Resource = metav1.GroupResource{Group: "A", Resource: "B"} },
			Want: []string{
				`spec.resource.resource: Invalid value: "B": a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')`,
				`spec.resource.group: Invalid value: "A": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')`,
			},
		},
	)
	kindtest.Update(t, row, good(), migrationCase{
		Name: "resource", Edit: func(m *migration) { m.Spec.Resource.Resource = "pods" },
		Want: []string{`spec: Invalid value: {"resource":{"group":"apps","resource":"pods"}}: field is immutable`},
	})
	kindtest.Row(t, row, good(), time.Now(), "x", "deployments.apps")
}

func TestStorageVersionMigration_Status(t *testing.T) {
	at := metav1.NewTime(time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC))
	status := func(version string, conditions ...migrationv1.MigrationConditionType) func(*migration) {
		return func(m *migration) {
			m.Status = migrationv1.StorageVersionMigrationStatus{ResourceVersion: version}
			for _, c := range conditions {
				m.Status.Conditions = append(m.Status.Conditions, metav1.Condition{Type: string(c), Status: metav1.ConditionTrue, Reason: "R", LastTransitionTime: at})
			}
		}
	}
	running, succeeded, failed := migrationv1.MigrationRunning, migrationv1.MigrationSucceeded, migrationv1.MigrationFailed
	const one = `{"type":"Running","status":"True","lastTransitionTime":"2026-01-01T12:00:00Z","reason":"R","message":""}`
	const two = `{"type":"Succeeded","status":"True","lastTransitionTime":"2026-01-01T12:00:00Z","reason":"R","message":""}`
	const three = `{"type":"Failed","status":"True","lastTransitionTime":"2026-01-01T12:00:00Z","reason":"R","message":""}`
	kindtest.UpdateSubresource(t, StorageVersionMigration(), "status", good(),
		migrationCase{Name: "running", Edit: status("7", running)},
		migrationCase{Name: "no version", Edit: status("", running), Want: []string{`status.resourceVersion: Invalid value: "": resource version is not well formed: `}},
		migrationCase{Name: "succeeded and failed", Edit: status("7", succeeded, failed), Want: []string{
			"status.conditions: Invalid value: [" + two + "," + three + "]: Both success and failed conditions cannot be true at the same time"}},
		migrationCase{Name: "running and succeeded", Edit: status("7", running, succeeded), Want: []string{
			"status.conditions: Invalid value: [" + one + "," + two + "]: Running condition cannot be true when success condition is true"}},
		migrationCase{Name: "running and failed", Edit: status("7", running, failed), Want: []string{
			"status.conditions: Invalid value: [" + one + "," + three + "]: Running condition cannot be true when failed condition is true"}},
		migrationCase{Name: "spec", Edit: func(m *migration) { status("7")(m); m.Spec.Resource.Resource = "?" }},
	)
	for name, c := range map[migrationv1.MigrationConditionType]string{succeeded: "Success", failed: "Failed"} {
		done := good()
		status("7", name)(done)
		kindtest.UpdateSubresource(t, StorageVersionMigration(), "status", done, migrationCase{Name: "back from " + c, Edit: status("8"), Want: []string{
			`status.resourceVersion: Invalid value: "8": field is immutable`,
			"status.conditions: Invalid value: null: " + c + " condition cannot be set to false once it is true"}})
	}
}
