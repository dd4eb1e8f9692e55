// Package column makes the columns and cells of server-side tables: the definitions that many kinds share and the
// texts in which cells show times, lists and empty values. What `kubectl get` prints comes from here and from the
// Row functions of the kinds; the forms follow upstream's pkg/printers/internalversion.
package column

import (
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
)

// None and Unknown are how cells show an absent value and one that nobody reported.
const (
	None    = "<none>"
	Unknown = "<unknown>"
	Unset   = "<unset>"
)

// objectMetaDoc has the API documentation of metadata fields by JSON name.
var objectMetaDoc = metav1.ObjectMeta{}.SwaggerDoc()

// Name is the first column of nearly every kind.
func Name() metav1.TableColumnDefinition {
	return metav1.TableColumnDefinition{Name: "Name", Type: "string", Format: "name", Description: objectMetaDoc["name"]}
}

// Age is the column whose cell is Since(creationTimestamp).
func Age() metav1.TableColumnDefinition {
	return Text("Age", objectMetaDoc["creationTimestamp"])
}

// Text is a column of strings. The description is the field's API documentation (a SwaggerDoc entry).
func Text(name, description string) metav1.TableColumnDefinition {
	return metav1.TableColumnDefinition{Name: name, Type: "string", Description: description}
}

// Integer is a column whose cells are int64.
func Integer(name, description string) metav1.TableColumnDefinition {
	return metav1.TableColumnDefinition{Name: name, Type: "integer", Description: description}
}

// Boolean is a column whose cells are bool.
func Boolean(name, description string) metav1.TableColumnDefinition {
	return metav1.TableColumnDefinition{Name: name, Type: "boolean", Description: description}
}

// Wide marks a column that kubectl shows with -o wide only. Its cells are sent always.
func Wide(c metav1.TableColumnDefinition) metav1.TableColumnDefinition {
	c.Priority = 1
	return c
}

// Since is the age of t at now in kubectl's short form (5m3s, 4d2h), Unknown for the zero time.
func Since(t metav1.Time, now time.Time) string {
	if t.IsZero() {
		return Unknown
	}
	return duration.HumanDuration(now.Sub(t.Time))
}

// SinceMicro is Since for times with microseconds.
func SinceMicro(t metav1.MicroTime, now time.Time) string {
	return Since(metav1.Time(t), now)
}

// Or is text, or fallback when text is empty.
func Or(text, fallback string) string {
	if text == "" {
		return fallback
	}
	return text
}

// Containers joins the names and the images of containers with commas.
func Containers(containers []corev1.Container) (names, images string) {
	n, i := make([]string, 0, len(containers)), make([]string, 0, len(containers))
	for _, c := range containers {
		n, i = append(n, c.Name), append(i, c.Image)
	}
	return strings.Join(n, ","), strings.Join(i, ",")
}
