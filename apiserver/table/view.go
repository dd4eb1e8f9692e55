package table

import (
	"time"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"vigil/kinds/column"
)

// OfView makes the table of one object that has no row in the table of kinds: the view that a subresource gives of
// another one. A Scale has columns of its own, everything else gets name and creation time. Beta asks for
// meta.k8s.io/v1beta1.
func OfView(obj metav1.Object, beta bool, now time.Time) *metav1.Table {
	t := &metav1.Table{TypeMeta: metav1.TypeMeta{Kind: "Table", APIVersion: "meta.k8s.io/v1"}}
	if beta {
		t.APIVersion = "meta.k8s.io/v1beta1"
	}
	t.ResourceVersion = obj.GetResourceVersion()
	row := metav1.TableRow{Cells: []any{obj.GetName()}}
	if scale, ok := obj.(*autoscalingv1.Scale); ok {
		t.ColumnDefinitions = []metav1.TableColumnDefinition{
			column.Name(),
			column.Integer("Desired", autoscalingv1.ScaleSpec{}.SwaggerDoc()["replicas"]),
			column.Integer("Available", autoscalingv1.ScaleStatus{}.SwaggerDoc()["replicas"]),
			column.Age(),
		}
		row.Cells = append(row.Cells, int64(scale.Spec.Replicas), int64(scale.Status.Replicas), column.Since(scale.CreationTimestamp, now))
	} else {
		t.ColumnDefinitions = genericColumns()
		row.Cells = append(row.Cells, obj.GetCreationTimestamp().UTC().Format(time.RFC3339))
	}
	partial := meta.AsPartialObjectMetadata(obj)
	partial.TypeMeta = metav1.TypeMeta{Kind: "PartialObjectMetadata", APIVersion: t.APIVersion}
	row.Object = runtime.RawExtension{Object: partial}
	t.Rows = []metav1.TableRow{row}
	return t
}
