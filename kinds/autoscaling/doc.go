// Package autoscaling has HorizontalPodAutoscaler: v2, as it is stored, and v1, a view of it that knows one metric only and
// keeps the rest in annotations. The Scale kind has no row; it is a view of the kinds that can be scaled (kinds/apps).
package autoscaling
