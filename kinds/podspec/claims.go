package podspec

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"vigil/kinds/validate"
)

// checkResourceClaims checks the claims on devices that the pod's containers may refer to (KEP-4381).
func (c *checker) checkResourceClaims(path *field.Path) {
	c.claims = sets.New[string]()
	for i, claim := range c.spec.ResourceClaims {
		at := path.Index(i)
		switch {
		case claim.Name == "":
			c.add(field.Required(at.Child("name"), ""))
		case c.claims.Has(claim.Name):
			c.add(field.Duplicate(at.Child("name"), claim.Name))
		default:
			c.add(validate.Each(claim.Name, at.Child("name"), validation.IsDNS1123Label)...)
			c.claims.Insert(claim.Name)
		}
		switch {
		case claim.ResourceClaimName != nil && claim.ResourceClaimTemplateName != nil:
			c.add(field.Invalid(at, claim, "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"))
		case claim.ResourceClaimName == nil && claim.ResourceClaimTemplateName == nil:
			c.add(field.Invalid(at, claim, "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"))
		}
		if claim.ResourceClaimName != nil {
			c.add(validate.Name(*claim.ResourceClaimName, at.Child("resourceClaimName"))...)
		}
		if claim.ResourceClaimTemplateName != nil {
			c.add(validate.Name(*claim.ResourceClaimTemplateName, at.Child("resourceClaimTemplateName"))...)
		}
	}
}

// checkClaimRefs checks a container's references to the pod's claims: to a claim as a whole or to one request in it,
// not to both and to none twice.
func (c *checker) checkClaimRefs(refs []corev1.ResourceClaim, path *field.Path) {
	whole, partly, requests := sets.New[string](), sets.New[string](), sets.New[string]()
	for i, ref := range refs {
		at := path.Index(i)
		if ref.Name == "" {
			c.add(field.Required(at, ""))
			continue
		}
		if ref.Request != "" {
			c.add(validate.Each(ref.Request, at.Child("request"), validation.IsDNS1123Label)...)
		}
		key := ref.Name + "/" + ref.Request
		switch {
		case whole.Has(ref.Name), ref.Request == "" && partly.Has(ref.Name):
			c.add(field.Duplicate(at, ref.Name))
		case requests.Has(key):
			c.add(field.Duplicate(at, key))
		}
		if ref.Request == "" {
			whole.Insert(ref.Name)
		} else {
			requests.Insert(key)
			partly.Insert(ref.Name)
		}
		if !c.claims.Has(ref.Name) {
			err := field.NotFound(at, ref.Name)
			err.Detail = c.claimNames()
			c.add(err)
		}
	}
}

// claimNames says what the names of claims are. The text is made once, however many references are wrong.
func (c *checker) claimNames() string {
	if c.claimText == "" {
		c.claimText = "must be one of the names in pod.spec.resourceClaims"
		if c.claims.Len() == 0 {
			c.claimText += " which is empty"
		} else {
			c.claimText += ": " + strings.Join(sets.List(c.claims), ", ")
		}
	}
	return c.claimText
}

// ValidateClaimTemplate checks the template of a volume claim, in ephemeral volumes.
func ValidateClaimTemplate(t *corev1.PersistentVolumeClaimTemplate, path *field.Path) field.ErrorList {
	meta := path.Child("metadata")
	errs := apivalidation.ValidateAnnotations(t.Annotations, meta.Child("annotations"))
	errs = append(errs, metav1validation.ValidateLabels(t.Labels, meta.Child("labels"))...)
	errs = append(errs, onlyFields(t.ObjectMeta, sets.New("Annotations", "Labels"), "cannot be set", meta)...)
	return append(errs, ValidateClaimSpec(&t.Spec, path.Child("spec"))...)
}

// AccessModes are the modes in which volumes are mounted, sorted as error texts show them.
var accessModes = []corev1.PersistentVolumeAccessMode{
	corev1.ReadOnlyMany, corev1.ReadWriteMany, corev1.ReadWriteOnce, corev1.ReadWriteOncePod,
}

// ValidateClaimSpec checks the spec of a volume claim that is being created.
func ValidateClaimSpec(spec *corev1.PersistentVolumeClaimSpec, path *field.Path) field.ErrorList {
	errs := ValidateAccessModes(spec.AccessModes, "at least 1 access mode is required", path.Child("accessModes"))
	errs = append(errs, validate.LabelSelector(spec.Selector, path.Child("selector"))...)
	at := path.Child("resources").Key(string(corev1.ResourceStorage))
	if storage, ok := spec.Resources.Requests[corev1.ResourceStorage]; !ok {
		errs = append(errs, field.Required(at, ""))
	} else if storage.Cmp(resource.Quantity{}) <= 0 {
		errs = append(errs, field.Invalid(at, storage.String(), textNotPositive))
	}
	for _, ref := range []struct {
		child string
		name  *string
	}{{"storageClassName", spec.StorageClassName}, {"volumeAttributesClassName", spec.VolumeAttributesClassName}} {
		if ref.name != nil && *ref.name != "" {
			errs = append(errs, validate.Name(*ref.name, path.Child(ref.child))...)
		}
	}
	if spec.VolumeMode != nil {
		errs = append(errs, notSupportedIn(path.Child("volumeMode"), *spec.VolumeMode, corev1.PersistentVolumeBlock, corev1.PersistentVolumeFilesystem)...)
	}
	return append(errs, validateDataSource(spec, path)...)
}

// ValidateAccessModes wants at least one known access mode, and ReadWriteOncePod only alone.
func ValidateAccessModes(modes []corev1.PersistentVolumeAccessMode, none string, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if len(modes) == 0 {
		return field.ErrorList{field.Required(path, none)}
	}
	for _, mode := range modes {
		errs = append(errs, notSupportedIn(path, mode, accessModes...)...)
	}
	if len(modes) > 1 && slices.Contains(modes, corev1.ReadWriteOncePod) &&
		slices.ContainsFunc(modes, func(m corev1.PersistentVolumeAccessMode) bool {
			return m != corev1.ReadWriteOncePod && slices.Contains(accessModes, m)
		}) {
		errs = append(errs, field.Forbidden(path, "may not use ReadWriteOncePod with other access modes"))
	}
	return errs
}

func validateDataSource(spec *corev1.PersistentVolumeClaimSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	check := func(group *string, kind, name string, at *field.Path) {
		if name == "" {
			errs = append(errs, field.Required(at.Child("name"), ""))
		}
		if kind == "" {
			errs = append(errs, field.Required(at.Child("kind"), ""))
		}
		if (group == nil || *group == "") && kind != "PersistentVolumeClaim" {
			errs = append(errs, field.Invalid(at, kind, "must be 'PersistentVolumeClaim' when referencing the default apiGroup"))
		}
	}
	source, ref := spec.DataSource, spec.DataSourceRef
	if source != nil {
		check(source.APIGroup, source.Kind, source.Name, path.Child("dataSource"))
	}
	if ref != nil {
		check(ref.APIGroup, ref.Kind, ref.Name, path.Child("dataSourceRef"))
	}
	if ref != nil && ref.Namespace != nil && *ref.Namespace != "" {
		if source != nil {
			errs = append(errs, field.Invalid(path, path.Child("dataSource"), "may not be specified when dataSourceRef.namespace is specified"))
		}
		return errs
	}
	if source != nil && ref != nil {
		same := corev1.TypedLocalObjectReference{APIGroup: ref.APIGroup, Kind: ref.Kind, Name: ref.Name}
		if !equality.Semantic.DeepEqual(*source, same) {
			errs = append(errs, field.Invalid(path, path.Child("dataSource"), "must match dataSourceRef"))
		}
	}
	return errs
}
