package flowcontrol

import (
	"context"
	"encoding/json"
	"net/url"
	"strconv"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apply "k8s.io/client-go/applyconfigurations/flowcontrol/v1"
	client "k8s.io/client-go/kubernetes/typed/flowcontrol/v1"

	"vigil/apiserver/write"
)

// statusWriter is what the engine writes with: only the status of FlowSchemas, by which it says that their priority level is
// missing. The embedded interfaces are nil.
type statusWriter struct {
	client.FlowcontrolV1Interface
	controller *Controller
}

func (s statusWriter) FlowSchemas() client.FlowSchemaInterface {
	return schemaWriter{controller: s.controller}
}

type schemaWriter struct {
	client.FlowSchemaInterface
	controller *Controller
}

func (s schemaWriter) ApplyStatus(ctx context.Context, schema *apply.FlowSchemaApplyConfiguration, opts metav1.ApplyOptions) (*flowcontrolv1.FlowSchema, error) {
	body, err := json.Marshal(schema)
	if err != nil {
		return nil, err
	}
	query := url.Values{"fieldManager": {opts.FieldManager}, "force": {strconv.FormatBool(opts.Force)}}
	_, err = s.controller.config.Writer.Patch(ctx, &write.Request{
		Kind: s.controller.kind("flowschemas"), Name: *schema.Name, Subresource: "status",
		ContentType: "application/apply-patch+yaml", Body: body, RawQuery: query.Encode(), User: s.controller.self, UserAgent: userAgent,
	})
	return nil, err
}

const userAgent = "vigil-apiserver"
