package scheduler

import "k8s.io/apimachinery/pkg/api/resource"

func equalQuantity(a, b resource.Quantity) bool { return a.Cmp(b) == 0 }
