"""UpdateFeatures: refused, unless a feature shall keep the level it has (KIP-584, KIP-778)."""

from __future__ import annotations

from actors.broker.handlers.context import HandlerContext, Request
from actors.broker.handlers.features import FEATURES
from actors.wire.errors import ErrorCode
from actors.wire.messages import ApiMessage, UpdateFeaturesRequest, UpdateFeaturesResponse

API = UpdateFeaturesRequest
VERSIONS = (0, 2)

Update = UpdateFeaturesRequest.FeatureUpdateKey
Result = UpdateFeaturesResponse.UpdatableFeatureResult
_ONE_ERROR_FROM = 2  # from this version on all updates succeed or fail together


def handle(context: HandlerContext, request: Request) -> UpdateFeaturesResponse:
    """Answered at once, for there is nothing to change."""
    m: UpdateFeaturesRequest = request.message
    wrong = [_why_not(update) for update in m.feature_updates]
    if request.version >= _ONE_ERROR_FROM:
        first = next((text for text in wrong if text is not None), None)
        code = ErrorCode.NONE if first is None else ErrorCode.INVALID_UPDATE_VERSION
        return UpdateFeaturesResponse(error_code=code, error_message=first)
    return UpdateFeaturesResponse(
        error_message=None,
        results=[
            Result(
                feature=update.feature,
                error_code=ErrorCode.NONE if text is None else ErrorCode.INVALID_UPDATE_VERSION,
                error_message=text,
            )
            for update, text in zip(m.feature_updates, wrong, strict=True)
        ],
    )


def _why_not(update: Update) -> str | None:
    """Why the feature cannot get that level; None if it has it."""
    name, level = update.feature, update.max_version_level
    feature = FEATURES.get(name)
    if feature is None:
        return f"there is no feature {name!r}"
    if level != feature.level:
        return f"{name} is {feature.level} and cannot be changed to {level}"
    return None


def failed(message: ApiMessage, version: int, code: ErrorCode, text: str | None = None) -> UpdateFeaturesResponse:
    """The whole request refused."""
    return UpdateFeaturesResponse(error_code=code, error_message=text)
