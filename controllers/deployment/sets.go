package deployment

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/rand"
)

// Annotations that deployments keep on their sets (and the revision also on themselves).
const (
	revisionAnnotation        = "deployment.kubernetes.io/revision"
	revisionHistoryAnnotation = "deployment.kubernetes.io/revision-history"
	desiredAnnotation         = "deployment.kubernetes.io/desired-replicas"
	maxAnnotation             = "deployment.kubernetes.io/max-replicas"
)

// notCopied are annotations of the deployment that its sets do not get.
var notCopied = map[string]bool{
	corev1.LastAppliedConfigAnnotation: true,
	revisionAnnotation:                 true,
	revisionHistoryAnnotation:          true,
	desiredAnnotation:                  true,
	maxAnnotation:                      true,
	appsv1.DeprecatedRollbackTo:        true,
}

// sameTemplate compares templates without the hash label that sets add.
func sameTemplate(a, b *corev1.PodTemplateSpec) bool {
	a, b = a.DeepCopy(), b.DeepCopy()
	delete(a.Labels, appsv1.DefaultDeploymentUniqueLabelKey)
	delete(b.Labels, appsv1.DefaultDeploymentUniqueLabelKey)
	return apiequality.Semantic.DeepEqual(a, b)
}

// split tells the new set, the oldest whose template is the deployment's (nil when there is none), from the old ones.
func (r *rollout) split() (fresh *appsv1.ReplicaSet, old []*appsv1.ReplicaSet) {
	for _, set := range byCreation(r.sets) {
		if fresh == nil && sameTemplate(&set.Spec.Template, &r.d.Spec.Template) {
			fresh = set
			continue
		}
		old = append(old, set)
	}
	return fresh, old
}

// templateHash is a short name for a template. collisions makes another one when the name is taken by a different template.
func templateHash(template *corev1.PodTemplateSpec, collisions *int32) (string, error) {
	encoded, err := json.Marshal(template)
	if err != nil {
		return "", fmt.Errorf("encode template: %w", err)
	}
	hash := fnv.New32a()
	hash.Write(encoded)
	if collisions != nil {
		hash.Write([]byte(strconv.Itoa(int(*collisions))))
	}
	return rand.SafeEncodeString(strconv.FormatUint(uint64(hash.Sum32()), 10)), nil
}

// ensureNew brings the new set's annotations up to date, or makes the set. It returns nil when the set could not be made yet.
func (r *rollout) ensureNew(ctx context.Context, fresh *appsv1.ReplicaSet, old []*appsv1.ReplicaSet) (*appsv1.ReplicaSet, error) {
	var newest int64
	for _, set := range old {
		newest = max(newest, revision(set))
	}
	next := strconv.FormatInt(newest+1, 10)
	if fresh != nil {
		updated := fresh.DeepCopy()
		changed := r.annotate(updated, next, true)
		if updated.Spec.MinReadySeconds != r.d.Spec.MinReadySeconds {
			updated.Spec.MinReadySeconds, changed = r.d.Spec.MinReadySeconds, true
		}
		if changed {
			return r.updateSet(ctx, updated)
		}
		r.noteRevision(fresh.Annotations[revisionAnnotation])
		if r.condition(appsv1.DeploymentProgressing) == nil && r.hasDeadline() {
			r.setCondition(appsv1.DeploymentProgressing, corev1.ConditionTrue, "FoundNewReplicaSet", fmt.Sprintf("Found new replica set %q", fresh.Name))
		}
		return fresh, nil
	}
	return r.makeNew(ctx, old, next)
}

func (r *rollout) makeNew(ctx context.Context, old []*appsv1.ReplicaSet, number string) (*appsv1.ReplicaSet, error) {
	hash, err := templateHash(&r.d.Spec.Template, r.d.Status.CollisionCount)
	if err != nil {
		return nil, err
	}
	template := *r.d.Spec.Template.DeepCopy()
	template.Labels = withLabel(template.Labels, hash)
	selector := r.d.Spec.Selector.DeepCopy()
	selector.MatchLabels = withLabel(selector.MatchLabels, hash)
	set := &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{
			Name: r.d.Name + "-" + hash, Namespace: r.d.Namespace, Labels: template.Labels,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(r.d, Kind)},
		},
		Spec: appsv1.ReplicaSetSpec{MinReadySeconds: r.d.Spec.MinReadySeconds, Selector: selector, Template: template},
	}
	size := newSetSize(r.d, old, &appsv1.ReplicaSet{Spec: appsv1.ReplicaSetSpec{Replicas: new(int32)}})
	set.Spec.Replicas = &size
	r.annotate(set, number, false)

	made, err := r.c.client.AppsV1().ReplicaSets(set.Namespace).Create(ctx, set, metav1.CreateOptions{})
	switch {
	case apierrors.IsAlreadyExists(err):
		return r.collided(ctx, set, err)
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return nil, err
	case err != nil:
		message := fmt.Sprintf("Failed to create new replica set %q: %v", set.Name, err)
		if r.hasDeadline() {
			r.setCondition(appsv1.DeploymentProgressing, corev1.ConditionFalse, "ReplicaSetCreateError", message)
			if statusErr := r.writeStatusWith(ctx, r.status(nil)); statusErr != nil {
				r.c.logger.Warn("the controller could not write a deployment's status; it tries again with the next reconciliation", "namespace", r.d.Namespace, "deployment", r.d.Name, "error", statusErr)
			}
		}
		r.c.recorder.Event(r.d, corev1.EventTypeWarning, "ReplicaSetCreateError", message)
		return nil, err
	}
	r.c.wrote.Wrote(r.d.UID, made.ResourceVersion)
	r.sets = append(r.sets, made)
	if size > 0 {
		r.c.recorder.Eventf(r.d, corev1.EventTypeNormal, "ScalingReplicaSet", "Scaled up replica set %s from 0 to %d", made.Name, size)
	}
	if r.hasDeadline() {
		r.setCondition(appsv1.DeploymentProgressing, corev1.ConditionTrue, "NewReplicaSetCreated", fmt.Sprintf("Created new replica set %q", made.Name))
	}
	r.noteRevision(number)
	return made, nil
}

// collided looks at a set that has the name the new one should have. When it is another template's, the next try uses
// another name.
func (r *rollout) collided(ctx context.Context, set *appsv1.ReplicaSet, cause error) (*appsv1.ReplicaSet, error) {
	have, err := r.c.client.AppsV1().ReplicaSets(set.Namespace).Get(ctx, set.Name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	if owner := metav1.GetControllerOf(have); owner != nil && owner.UID == r.d.UID && sameTemplate(&have.Spec.Template, &r.d.Spec.Template) {
		r.sets = append(r.sets, have) // made by us, and the cache does not show it yet
		r.noteRevision(have.Annotations[revisionAnnotation])
		return have, nil
	}
	updated := r.d.DeepCopy()
	if updated.Status.CollisionCount == nil {
		updated.Status.CollisionCount = new(int32)
	}
	*updated.Status.CollisionCount++
	if _, err := r.c.client.AppsV1().Deployments(updated.Namespace).UpdateStatus(ctx, updated, metav1.UpdateOptions{}); err != nil {
		return nil, err
	}
	return nil, cause
}

func withLabel(labels map[string]string, hash string) map[string]string {
	labels = maps.Clone(labels)
	if labels == nil {
		labels = map[string]string{}
	}
	labels[appsv1.DefaultDeploymentUniqueLabelKey] = hash
	return labels
}

// annotate sets the annotations of the new set and says whether that changed anything.
func (r *rollout) annotate(set *appsv1.ReplicaSet, number string, exists bool) (changed bool) {
	if set.Annotations == nil {
		set.Annotations = map[string]string{}
	}
	put := func(name, value string) {
		if set.Annotations[name] != value {
			set.Annotations[name], changed = value, true
		}
	}
	for name, value := range r.d.Annotations {
		if !notCopied[name] {
			put(name, value)
		}
	}
	have, wantNumber := revision(set), number
	if next, err := strconv.ParseInt(number, 10, 64); err == nil && have < next {
		if exists && have > 0 { // an undo: the set's earlier numbers are remembered
			put(revisionHistoryAnnotation, appendRevision(set.Annotations[revisionHistoryAnnotation], strconv.FormatInt(have, 10)))
		}
		put(revisionAnnotation, wantNumber)
	}
	if !exists {
		for name, value := range r.sizeAnnotations() {
			put(name, value)
		}
	}
	return changed
}

// maxHistoryLength bounds revisionHistoryAnnotation, in bytes. The oldest numbers go first.
const maxHistoryLength = 2000

func appendRevision(history, number string) string {
	if history != "" {
		number = history + "," + number
	}
	for len(number) > maxHistoryLength {
		_, number, _ = strings.Cut(number, ",")
	}
	return number
}

func (r *rollout) sizeAnnotations() map[string]string {
	surge, _ := bounds(r.d)
	return map[string]string{
		desiredAnnotation: strconv.Itoa(int(wanted(r.d))),
		maxAnnotation:     strconv.Itoa(int(wanted(r.d) + surge)),
	}
}

// noteRevision gives the deployment the new set's number. It is written with the status.
func (r *rollout) noteRevision(number string) {
	if r.d.Annotations == nil {
		r.d.Annotations = map[string]string{}
	}
	r.d.Annotations[revisionAnnotation] = number
}

// updateSet writes a changed set and puts it in the place of the old one.
func (r *rollout) updateSet(ctx context.Context, set *appsv1.ReplicaSet) (*appsv1.ReplicaSet, error) {
	written, err := r.c.client.AppsV1().ReplicaSets(set.Namespace).Update(ctx, set, metav1.UpdateOptions{})
	if err != nil {
		return nil, err
	}
	r.c.wrote.Wrote(r.d.UID, written.ResourceVersion)
	for i := range r.sets {
		if r.sets[i].UID == written.UID {
			r.sets[i] = written
		}
	}
	return written, nil
}

// scaleSet gives a set a size, and notes on it what the deployment looked like.
func (r *rollout) scaleSet(ctx context.Context, set *appsv1.ReplicaSet, size int32) error {
	updated := set.DeepCopy()
	before := replicas(set)
	changed := before != size
	for name, value := range r.sizeAnnotations() {
		if updated.Annotations[name] != value {
			if updated.Annotations == nil {
				updated.Annotations = map[string]string{}
			}
			updated.Annotations[name], changed = value, true
		}
	}
	if !changed {
		return nil
	}
	updated.Spec.Replicas = &size
	if _, err := r.updateSet(ctx, updated); err != nil {
		return err
	}
	if before != size {
		direction := "down"
		if size > before {
			direction = "up"
		}
		r.c.recorder.Eventf(r.d, corev1.EventTypeNormal, "ScalingReplicaSet", "Scaled %s replica set %s from %d to %d", direction, set.Name, before, size)
	}
	return nil
}
