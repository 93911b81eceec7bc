#pragma once
#include "overlimit/redis_endpoint.hpp"
